"""How much longer a trial has to go on, if the pairs to come are as those so far. A forecast, not a bound.

Wealth grows by about the same factor with each pair, so what n pairs brought to W (a logarithm) will reach the target T
after n · T / W: n · (T / W − 1) more. The scale of the bet that is ahead is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pellucid.tune.effect.sequence import Floats, target_log, wealth_log
from pellucid.tune.effect.track import Track

LEAST_PAIRS: Final = 6      # chosen: a forecast from fewer jumps about by its own size


def until_above(track: Track, gain: float) -> float | None:
    """Further pairs until the low end is above `gain`; None where it does not get there."""
    return _until(track, track.averages, gain, done=track.low > gain)


def until_below(track: Track, gain: float) -> float | None:
    """Further pairs until the high end is below `gain`; None where it does not get there."""
    return _until(track, -track.averages, -gain, done=track.high < gain)


def all_of(pairs_counts: Sequence[float | None]) -> float | None:
    """Of conditions that must all be met: the last; None if one never is."""
    known = [count for count in pairs_counts if count is not None]
    return max(known) if len(known) == len(pairs_counts) else None


def first_of(pairs_counts: Sequence[float | None]) -> float | None:
    """Of conditions of which one is enough: the first; None if none is ever met."""
    return min((count for count in pairs_counts if count is not None), default=None)


def _until(track: Track, gains: Floats, gain: float, done: bool) -> float | None:
    if done:
        return 0.0
    if len(gains) < LEAST_PAIRS or track.bias is None or not math.isfinite(track.bias):
        return None
    wealth = float(wealth_log(gains, gain + track.bias)[:, -1].max())
    if wealth <= 0:
        return None
    places = max(1.0, len(gains) * (target_log(track.noise_level) / wealth - 1))
    return math.ceil(places) * track.starts_count
