"""Gains of pairs, one after the other → an interval for their centre after each, valid whenever one looks.

    gains    0.061   0.038   0.055   0.047   …                logarithms, from `Pair.gain`; ±inf is a failed block
    low      -inf    -inf    -inf    …       0.012            after each pair; never falls
    high     inf     inf     inf     …       0.081            after each pair; never rises

The order of each pair is a fair coin, so if the arms differ by the factor exp(c) and by nothing else, a gain g is as
likely c + x as c − x, whatever x the machine made: g − c is symmetric about 0, given all before. Drift, clusters, heavy
tails and autocorrelation only make x; no distribution is assumed, and no number of pairs is too small.

Against "the centre is at most c" one bets on the sign of g − c, more the larger it is:

    wealth ×= 1 + 0.9 · tanh((g − c) / scale)       a fair game, or a losing one, if the centre is at most c

Such wealth is a nonnegative supermartingale, so by Ville's inequality it ever reaches 1/level with a chance of at most
`level`. `low` is the greatest c below which it did. Wealth is spread evenly over scales, for nobody knows σ beforehand:
that costs a factor 5 at most. At the best scale tanh is the likelihood-ratio bet for Gaussian noise.

Sources: Ramdas, Ruf, Larsson, Koolen, "Admissible anytime-valid sequential inference must rely on nonnegative
martingales" (2020, arXiv 2009.03167), the section on symmetric distributions; Waudby-Smith, Ramdas, "Estimating means
of bounded random variables by betting" (JRSS B 2024), intervals by betting; de la Peña, "A general class of exponential
inequalities for martingales and ratios" (Ann. Probab. 1999), symmetric increments; Ville, "Étude critique de la notion
de collectif" (1939). Robins and Rosenbaum's constant-effect model makes the test of a randomised pair an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Gains at which a bet saturates. The best is σ²/effect: octaves from 1 to 16 %, for effects of some per cent at a σ of
# 1 to 10 %. Finer grids, and scales that learn from the pairs, gained nothing that mattered (docs/log/0007).
SCALES: Final = 0.01 * 2.0 ** np.arange(5)
# No pair takes all: a single outlier the wrong way leaves a tenth. 0.85 to 0.95 were alike in power (docs/log/0007).
STAKE: Final = 0.9
# Beyond the range of the gains by this much a bet of every scale is saturated: more would not change the wealth.
REACH: Final = 0.5
STEPS: Final = 20               # halvings of the search: the end is found to a millionth of the range


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ends of the interval after each gain; -inf and inf where there is none yet."""

    low: Floats
    high: Floats


def bounds(gains: Floats, level: float) -> Bounds:
    """Interval for the centre of the gains after each; each end is ever wrong with a chance of at most `level`."""
    return Bounds(low=_low(gains, level), high=-_low(-gains, level))


def wealth_log(gains: Floats, centre: float) -> Floats:
    """Logarithm of each scale's wealth, bet against "at most `centre`": a row for a scale, a column for a gain."""
    bets = STAKE * np.tanh((gains - centre)[None, :] / SCALES[:, None])
    return np.asarray(np.cumsum(np.log1p(bets), axis=1))


def target_log(level: float) -> float:
    """What the logarithm of the wealth of a single scale has to reach for all scales together to reach 1/level."""
    return float(np.log(len(SCALES) / level))


def _low(gains: Floats, level: float) -> Floats:
    """Greatest centre that is refuted after each gain, by halving for all of them at once; the refuted end is given."""
    if len(gains) == 0:
        return np.empty(0)
    finite = gains[np.isfinite(gains)]
    below, above = (finite.min() - REACH, finite.max()) if len(finite) else (-REACH, REACH)
    refuted, open_ = np.full(len(gains), below), np.full(len(gains), above)
    never = ~_refuted(gains, refuted, level)
    for _ in range(STEPS):
        middle = (refuted + open_) / 2
        is_refuted = _refuted(gains, middle, level)
        refuted, open_ = np.where(is_refuted, middle, refuted), np.where(is_refuted, open_, middle)
    return np.maximum.accumulate(np.where(never, -np.inf, refuted))


def _refuted(gains: Floats, centres: Floats, level: float) -> NDArray[np.bool_]:
    """Whether the wealth against centre t is there after gain t. Wealth falls as the centre rises: one may halve."""
    bets = STAKE * np.tanh((gains[None, :] - centres[:, None])[None] / SCALES[:, None, None])
    logs = np.where(np.tri(len(gains), dtype=bool)[None], np.log1p(bets), 0.0).sum(axis=2)
    return np.asarray(np.logaddexp.reduce(logs, axis=0) >= target_log(level))
