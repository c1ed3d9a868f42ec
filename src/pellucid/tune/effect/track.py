"""Pairs → what is known of one metric after each of them: estimate, low end, high end, as gains (logarithms).

Gains of several starts are averaged place by place, for the mean of the starts' centres is what is asked after:

    start 0   g00  g01  g02  g03
    start 1   g10  g11                   averages   (g00 + g10)/2   (g01 + g11)/2

The interval of the averages is widened by the bias that so many starts may have. Until all starts of the trial have
begun there is none. It holds at whatever time one looks, for its bound is over all times at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.tune.effect.arms import Arms, centre
from pellucid.tune.effect.pairs import Pair
from pellucid.tune.effect.sequence import Floats, bounds


@dataclass(frozen=True, slots=True)
class Track:
    """One metric over the pairs; lists have an entry for each pair, whether or not it said something."""

    metric: str
    centres: tuple[float | None, ...]
    lows: tuple[float, ...]         # -inf while there is none; never falls
    highs: tuple[float, ...]        # inf while there is none; never rises
    averages: Floats                # over all starts of the trial: what a forecast goes on from
    starts_count: int               # that an average is over
    noise_level: float              # of an interval of the averages
    bias: float | None              # by which it is widened; None if unknown

    @property
    def low(self) -> float:
        return self.lows[-1] if self.lows else -math.inf

    @property
    def high(self) -> float:
        return self.highs[-1] if self.highs else math.inf


def follow(metric: str, pairs: Sequence[Pair], level: float, arms: Arms) -> Track:
    """The track of a metric. Each end is ever wrong with a chance of at most `level`, on the terms of `arms`."""
    rows: dict[int, list[float]] = {}
    done = [_take(rows, pair, metric, arms) for pair in pairs]
    if len(rows) > arms.starts_count:
        raise AskedWrongly(f"pairs of {len(rows)} starts, but {arms.starts_count} were planned. Plan more, beforehand")
    averages = _averages(list(rows.values())) if len(rows) == arms.starts_count else np.empty(0)
    noise_level, bias = arms.noise_level(level), arms.bias(metric, level)
    ends = bounds(averages, noise_level)
    lows, highs = [-math.inf] * len(pairs), [math.inf] * len(pairs)
    if bias is not None:
        for at, count in enumerate(done):
            if count:
                lows[at], highs[at] = float(ends.low[count - 1]) - bias, float(ends.high[count - 1]) + bias
    return Track(
        metric=metric, centres=tuple(centre(averages[:count]) if count else None for count in done), lows=tuple(lows),
        highs=tuple(highs), averages=averages, starts_count=arms.starts_count, noise_level=noise_level, bias=bias,
    )


def _take(rows: dict[int, list[float]], pair: Pair, metric: str, arms: Arms) -> int:
    """Adds what the pair says to its start's row; gives how many averages over all starts there are by now."""
    if (gain := pair.gain(metric)) is not None:
        rows.setdefault(arms.group(pair), []).append(gain)
    return min(len(row) for row in rows.values()) if len(rows) == arms.starts_count else 0


def _averages(rows: Sequence[Sequence[float]]) -> Floats:
    """Place by place, as far as all rows go; a failure of each arm in one place says nothing, which is a gain of 0."""
    shortest = min(len(row) for row in rows)
    with np.errstate(invalid="ignore"):
        mean = np.mean([row[:shortest] for row in rows], axis=0)
    return np.nan_to_num(np.asarray(mean, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
