"""Pairs → what is known of one metric after each of them: estimate, low end, high end, as gains (logarithms).

Gains of several starts are averaged place by place, for the mean of the starts' centres is what is asked after:

    start 0   g00  g01  g02  g03         one start    [g00, g01, g02, g03]
    start 1   g10  g11                   two starts   [(g00 + g10)/2, (g01 + g11)/2]

Each number of starts gives an interval, widened by the bias of that many; what holds in all of them is kept. It holds
at whatever time one looks, because each bound is over all times at once, in the order of its own averages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.tune.effect.arms import Arms, centre
from pellucid.tune.effect.pairs import Pair
from pellucid.tune.effect.sequence import Bounds, Floats, bounds


@dataclass(frozen=True, slots=True)
class Track:
    """One metric over the pairs; lists have an entry for each pair, whether or not it said something."""

    metric: str
    centres: tuple[float | None, ...]
    lows: tuple[float, ...]         # -inf while there is none; never falls
    highs: tuple[float, ...]        # inf while there is none; never rises
    starts_count: int               # that the newest average is over
    averages: Floats                # over all starts seen: what a forecast goes on from
    noise_level: float              # of an interval of these averages
    bias: float | None              # by which it is widened; None if unknown

    @property
    def low(self) -> float:
        return self.lows[-1] if self.lows else -math.inf

    @property
    def high(self) -> float:
        return self.highs[-1] if self.highs else math.inf


@dataclass(frozen=True, slots=True)
class _Look:
    """What the first so many starts say."""

    averages: Floats
    ends: Bounds
    noise_level: float
    bias: float | None


def follow(metric: str, pairs: Sequence[Pair], level: float, arms: Arms) -> Track:
    """The track of a metric. Each end is ever wrong with a chance of at most `level`, on the terms of `arms`."""
    rows: dict[int, list[float]] = {}
    for pair in pairs:
        if (gain := pair.gain(metric)) is not None:
            rows.setdefault(arms.group(pair), []).append(gain)
    looks = [_look(metric, list(rows.values())[:count], level, arms) for count in range(1, len(rows) + 1)]

    seen: dict[int, int] = {}
    centres: list[float | None] = []
    lows, highs = [-math.inf], [math.inf]
    for pair in pairs:
        if pair.gain(metric) is not None:
            seen[arms.group(pair)] = seen.get(arms.group(pair), 0) + 1
        low, high, middle = lows[-1], highs[-1], None
        for count, look in enumerate(looks[:len(seen)], 1):
            last = min(list(seen.values())[:count]) - 1
            middle = centre(look.averages[:last + 1])
            if look.bias is not None:
                low, high = max(low, look.ends.low[last] - look.bias), min(high, look.ends.high[last] + look.bias)
        lows.append(low)
        highs.append(high)
        centres.append(middle)
    newest = looks[-1] if looks else _look(metric, [[]], level, arms)
    return Track(
        metric=metric, centres=tuple(centres), lows=tuple(lows[1:]), highs=tuple(highs[1:]), starts_count=len(looks),
        averages=newest.averages, noise_level=newest.noise_level, bias=newest.bias,
    )


def _look(metric: str, rows: Sequence[Sequence[float]], level: float, arms: Arms) -> _Look:
    spent = arms.looks(level, len(rows))
    averages = _average(rows)
    return _Look(
        averages=averages, ends=bounds(averages, spent.noise_level), noise_level=spent.noise_level,
        bias=arms.bias(metric, len(rows), spent.bias_level),
    )


def _average(rows: Sequence[Sequence[float]]) -> Floats:
    """Place by place, as far as all rows go; a failure of each arm in one place says nothing, which is a gain of 0."""
    shortest = min(len(row) for row in rows)
    with np.errstate(invalid="ignore"):
        mean = np.mean([row[:shortest] for row in rows], axis=0)
    return np.nan_to_num(np.asarray(mean, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
