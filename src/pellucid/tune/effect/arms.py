"""Where the two arms ran, and what that alone may make them differ by.

    one engine    |a|b|b|a|…   a live knob is turned between blocks: the same process serves both arms; no bias
    two engines   start 0: place 0 serves a, place 1 serves b;  start 1: both anew, places exchanged;  …

Two processes of one configuration are not equally fast: 10 to 15 % were seen between two servers on one machine, in
all rounds. A pair of processes keeps its bias as long as it lives, so more pairs do not help; only more starts do.
What the place does (its core, its GPU) cancels, for each arm is as often in one as in the other. What is left is taken
as a random effect of the start, with mean 0 and the spread that starts of A/A show around their own mean:

    bias of the mean of S starts  ≤  t(n − 1) · s / √S        s: standard deviation of the gains of n A/A starts

t(n − 1) is the one-sided quantile of Student's t (the prediction interval of a Gaussian sample, a textbook's): exact if
the effects of starts are Gaussian. That is assumed, not known. A/A gains hold the noise of their pairs too, which makes
s larger than the bias alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from pellucid.core.errors import AskedWrongly
from pellucid.tune.effect.pairs import DIRECTIONS, Pair
from pellucid.tune.effect.sequence import Floats


@dataclass(frozen=True, slots=True)
class OneEngine:
    """Both arms are one process: a pair's coin alone makes the comparison fair. Restarts in between do not matter."""

    @property
    def starts_count(self) -> int:
        """Over how many groups of pairs the gains are averaged."""
        return 1

    def group(self, pair: Pair) -> int:    # noqa: ARG002
        """Pairs of one group share a bias."""
        return 0

    def noise_level(self, level: float) -> float:
        """What the scatter of pairs may use of the error."""
        return level

    def bias(self, metric: str, level: float) -> float | None:    # noqa: ARG002
        """What the arms differ by alone, as a gain; wrong with a chance of at most what the noise leaves of `level`."""
        return 0.0


@dataclass(frozen=True, slots=True)
class TwoEngines:
    """Each arm is a process of its own. Without A/A starts the bias is unknown, and nothing can be said."""

    aa_gains: Mapping[str, Sequence[float]] = field(default_factory=dict)   # metric → gain of place 1 in each A/A start
    starts_count: int = 2       # of the trial, fixed beforehand: one may look at pairs at any time, but not at starts

    def __post_init__(self) -> None:
        if self.starts_count < 2 or self.starts_count % 2:
            raise AskedWrongly(f"{self.starts_count} starts: each arm has to be in each place as often. Give 2, 4, …")

    def group(self, pair: Pair) -> int:
        """Pairs of one group share a bias."""
        return pair.start

    def noise_level(self, level: float) -> float:
        """What the scatter of pairs may use of the error: half; the bias has the other half."""
        return level / 2

    def bias(self, metric: str, level: float) -> float | None:
        """What the mean bias of the trial's starts stays below; None if unknown: at least two A/A starts are needed."""
        gains = np.array(self.aa_gains.get(metric, ()))
        if len(gains) < 2:
            return None
        if not np.isfinite(gains).all():
            return math.inf
        quantile = -float(stdtrit(len(gains) - 1, level / 2))
        return quantile * float(np.std(gains, ddof=1)) / math.sqrt(self.starts_count)


Arms = OneEngine | TwoEngines


def two_engines(aa_pairs: Sequence[Pair], starts_count: int = 2) -> TwoEngines:
    """What A/A pairs of several starts tell about the bias: their blocks are of one configuration, `a` is place 0.

    A start in which only one of the engines worked has no finite gain and makes the bias unbounded: nothing is judged.
    """
    found: dict[str, Sequence[float]] = {}
    for metric in DIRECTIONS:
        starts: dict[int, list[float]] = {}
        for pair in aa_pairs:
            if (gain := pair.gain(metric)) is not None:
                starts.setdefault(pair.start, []).append(gain)
        if starts:
            found[metric] = tuple(centre(np.array(gains)) for gains in starts.values())
    return TwoEngines(found, starts_count)


def centre(gains: Floats) -> float:
    """Median of the means of all two gains: the centre of symmetry (Hodges, Lehmann, Ann. Math. Statist. 1963)."""
    left, right = np.triu_indices(len(gains))
    with np.errstate(invalid="ignore"):
        means = (gains[left] + gains[right]) / 2     # of a failure on each side: not a number, and left out
        return float(np.median(means[~np.isnan(means)]))
