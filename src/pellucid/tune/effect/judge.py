"""Pairs of blocks → better · worse · no difference · inconclusive, with the evidence and the minutes still needed.

    judge(pairs, Spend(number=1), Aim(goal="tpot_mean_ns"), OneEngine())
    Effect(word="better", reason="tpot_mean_ns × 0.951 (0.917 to 0.986) after 18 pairs", minutes_needed=0.0, …)

One may ask after each pair and stop at the first word: the ends are valid at all times (`sequence`). What two engines
differ by alone is allowed for (`arms`). A failed block is evidence against its arm: it counts as a loss in every
metric, and while the candidate failed more often than the present configuration it is not better, whatever its speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pellucid.tune.effect import ahead
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.arms import Arms, TwoEngines
from pellucid.tune.effect.pairs import DIRECTIONS, NS_PER_MINUTE, Pair
from pellucid.tune.effect.spend import Spend
from pellucid.tune.effect.track import Track, follow

Word = Literal["better", "worse", "no difference", "inconclusive"]

# Blocks that the candidate failed beyond those that the present configuration did. Chosen: one or two may be the
# machine's; with three nobody would keep it, and waiting for a test costs minutes.
FAILED_TOO_OFTEN: Final = 3


@dataclass(frozen=True, slots=True)
class Point:
    """What was known after some pairs. Ratios are candidate ÷ present; None where there is no such end yet."""

    pairs_count: int
    measured_ns: int                # of both arms, without restarts and pauses
    word: Word
    ratio: float | None
    low_ratio: float | None
    high_ratio: float | None


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """One metric. The word is about this metric alone."""

    metric: str
    margin_ratio: float
    bias_ratio: float | None        # what two engines may differ by alone: 0.02 is a factor 1.02; None if unknown
    points: tuple[Point, ...]       # one a pair, for a plot; the last is what holds now

    @property
    def word(self) -> Word:
        return self.points[-1].word if self.points else "inconclusive"


@dataclass(frozen=True, slots=True)
class Effect:
    """The verdict on a candidate's speed."""

    word: Word
    reason: str
    metrics: tuple[MetricEffect, ...]   # the goal first, then guards
    pairs_count: int
    failed_a_count: int                 # blocks of the present configuration that failed
    failed_b_count: int                 # blocks of the candidate that failed
    minutes_spent: float                # measuring; restarts and pauses apart
    minutes_needed: float | None        # more, to a word; None if unknown, or never at this rate
    level: float                        # chance that this candidate, were it the same, is called better
    notes: tuple[str, ...]


def judge(pairs: Sequence[Pair], spend: Spend, aim: Aim | None = None, arms: Arms | None = None) -> Effect:
    """The verdict after these pairs, which are all pairs of this trial, in the order of time.

    Without an aim it is output tokens per second; without arms they are two engines of which nothing is known.
    """
    aim, arms = aim or Aim(), arms or TwoEngines()
    tracks = {metric: follow(metric, pairs, spend.level, arms) for metric, _ in aim.margins()}
    metrics = tuple(_metric(tracks[metric], margin, pairs) for metric, margin in aim.margins())
    failed_a = sum(pair.a.failed_because is not None for pair in pairs)
    failed_b = sum(pair.b.failed_because is not None for pair in pairs)
    word, reason = _verdict(aim, metrics, tracks, failed_b - failed_a)
    spent_ns = sum(pair.duration_ns for pair in pairs)
    return Effect(
        word=word, reason=reason, metrics=metrics, pairs_count=len(pairs), failed_a_count=failed_a,
        failed_b_count=failed_b, minutes_spent=spent_ns / NS_PER_MINUTE, level=spend.level, notes=_notes(pairs),
        minutes_needed=0.0 if word != "inconclusive" else _minutes(aim, tracks, spent_ns, len(pairs)),
    )


def _metric(track: Track, margin_ratio: float, pairs: Sequence[Pair]) -> MetricEffect:
    points: list[Point] = []
    orders, measured_ns = set(), 0
    for count, (pair, middle, low, high) in enumerate(
        zip(pairs, track.centres, track.lows, track.highs, strict=True), 1
    ):
        orders.add(pair.order)
        measured_ns += pair.duration_ns
        ends = sorted((low, high), reverse=DIRECTIONS[track.metric] < 0) if low <= high else (low, high)
        points.append(Point(
            pairs_count=count, measured_ns=measured_ns, ratio=_ratio(middle, track.metric),
            low_ratio=_ratio(ends[0], track.metric), high_ratio=_ratio(ends[1], track.metric),
            word=_word(low, high, math.log1p(margin_ratio)) if len(orders) > 1 else "inconclusive",
        ))
    bias = None if track.bias is None or not math.isfinite(track.bias) else math.expm1(track.bias)
    return MetricEffect(metric=track.metric, margin_ratio=margin_ratio, bias_ratio=bias, points=tuple(points))


def _ratio(gain: float | None, metric: str) -> float | None:
    return None if gain is None or not math.isfinite(gain) else math.exp(DIRECTIONS[metric] * gain)


def _word(low: float, high: float, margin: float) -> Word:
    if low > high:                  # no single effect explains the pairs: it changed on the way
        return "inconclusive"
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "no difference" if -margin < low and high < margin else "inconclusive"


def _verdict(
    aim: Aim, metrics: Sequence[MetricEffect], tracks: dict[str, Track], failed_more_count: int,
) -> tuple[Word, str]:
    goal = metrics[0]
    if failed_more_count >= FAILED_TOO_OFTEN:
        return "worse", f"{failed_more_count} more blocks failed than of the present configuration"
    for guard in aim.guards:
        if tracks[guard.metric].low <= tracks[guard.metric].high < -math.log1p(guard.margin_ratio):
            return "worse", f"{guard.metric} is worse by more than its margin of {guard.margin_ratio}"
    if goal.word == "inconclusive":
        return "inconclusive", _why_open(goal, tracks[aim.goal])
    if goal.word == "better" and failed_more_count > 0:
        return "inconclusive", f"{aim.goal} is better, but {failed_more_count} more blocks failed"
    open_guards = [guard.metric for guard in aim.guards if not _is_cleared(tracks[guard.metric], guard.margin_ratio)]
    if goal.word == "better" and open_guards:
        return "inconclusive", f"{aim.goal} is better, but not yet shown to keep its margin: {', '.join(open_guards)}"
    return goal.word, _told(goal)


def _is_cleared(track: Track, margin_ratio: float) -> bool:
    return -math.log1p(margin_ratio) < track.low <= track.high


def _told(goal: MetricEffect) -> str:
    last = goal.points[-1]
    ends = [f"{end:.3f}" if end is not None else "open" for end in (last.low_ratio, last.high_ratio)]
    middle = f"{last.ratio:.3f}" if last.ratio is not None else "unbounded"
    return f"{goal.metric} × {middle} ({ends[0]} to {ends[1]}) after {last.pairs_count} pairs"


def _why_open(goal: MetricEffect, track: Track) -> str:
    if track.bias is None:
        return "two engines differ without any cause, by how much is unknown. Measure A/A starts of the same two first"
    if not len(track.averages):
        starts = f" in each of {track.starts_count} starts" if track.starts_count > 1 else ""
        return f"{goal.metric} was not seen{starts} yet"
    if track.low > track.high:
        return f"{goal.metric} changed on the way: no single effect explains all pairs"
    if track.bias >= max(abs(track.centres[-1] or 0.0), math.log1p(goal.margin_ratio)):
        return f"{_told(goal)}; two engines may differ that much by alone: more starts help, more pairs do not"
    return _told(goal)


def _minutes(aim: Aim, tracks: dict[str, Track], spent_ns: int, pairs_count: int) -> float | None:
    goal, margin = tracks[aim.goal], math.log1p(aim.margin_ratio)
    if goal.low > goal.high:
        return None
    cleared = [ahead.until_above(tracks[guard.metric], -math.log1p(guard.margin_ratio)) for guard in aim.guards]
    needed = ahead.first_of([
        ahead.all_of([ahead.until_above(goal, 0.0), *cleared]),
        ahead.until_below(goal, 0.0),
        ahead.all_of([ahead.until_above(goal, -margin), ahead.until_below(goal, margin)]),
    ])
    return None if needed is None or needed == 0 else needed * spent_ns / pairs_count / NS_PER_MINUTE


def _notes(pairs: Sequence[Pair]) -> tuple[str, ...]:
    notes: list[str] = []
    for name, blocks in (("present configuration", [p.a for p in pairs]), ("candidate", [p.b for p in pairs])):
        reasons = [block.failed_because for block in blocks if block.failed_because]
        if reasons:
            notes.append(f"{len(reasons)} of {len(blocks)} blocks of the {name} failed, the last: {reasons[-1]}")
    unequal = sum(pair.a.requests_count != pair.b.requests_count for pair in pairs)
    if unequal:
        notes.append(f"in {unequal} of {len(pairs)} pairs the arms got different numbers of requests")
    if pairs and len({pair.order for pair in pairs}) == 1:
        notes.append(f"all pairs have the order {pairs[0].order}: nothing is said until the coin has shown both")
    return tuple(notes)
