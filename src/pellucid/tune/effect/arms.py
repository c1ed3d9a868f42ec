"""Where the two arms ran, and what that alone may make them differ by.

    one engine    |a|b|b|a|…   a live knob is turned between blocks: the same process serves both arms; no bias
    two engines   start 0: engine X serves a, engine Y serves b;  start 1: both anew, places exchanged;  …

Two processes of one configuration are not equally fast: 10 to 15 % were seen between two servers on one machine, in
all rounds. A pair of processes keeps its bias as long as it lives, so more pairs do not help; only more starts do. The
bias of a start is taken as a random effect: of mean 0, for a coin gives each arm its place, and with the spread that
starts of A/A show:

    bias of the mean of S starts  ≤  t(n) · s / √S        s: root mean square of the gains of n A/A starts

t(n) is the one-sided quantile of Student's t with n degrees of freedom: exact if biases are Gaussian. That is assumed,
not known; A/A gains hold the noise of their pairs too, which makes s larger than the bias alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from pellucid.tune.effect.pairs import DIRECTIONS, Pair
from pellucid.tune.effect.sequence import Floats


@dataclass(frozen=True, slots=True)
class Looks:
    """What one look at some starts may use of the error: on the noise of pairs, and on the bias of starts."""

    noise_level: float
    bias_level: float


@dataclass(frozen=True, slots=True)
class OneEngine:
    """Both arms are one process: a pair's coin alone makes the comparison fair. Restarts in between do not matter."""

    def group(self, pair: Pair) -> int:    # noqa: ARG002
        """Pairs of one group share a bias."""
        return 0

    def looks(self, level: float, starts_count: int) -> Looks:    # noqa: ARG002
        return Looks(noise_level=level, bias_level=0.0)

    def bias(self, metric: str, starts_count: int, level: float) -> float | None:    # noqa: ARG002
        return 0.0


@dataclass(frozen=True, slots=True)
class TwoEngines:
    """Each arm is a process of its own. Without A/A starts its bias is unknown and nothing can be said."""

    aa_gains: Mapping[str, Sequence[float]] = field(default_factory=dict)   # metric → gain of each A/A start

    def group(self, pair: Pair) -> int:
        """Pairs of one group share a bias."""
        return pair.start

    def looks(self, level: float, starts_count: int) -> Looks:
        """One look after each start: their shares 1/(S·(S+1)) add up to 1; noise and bias get half of each."""
        share = level / (starts_count * (starts_count + 1))
        return Looks(noise_level=share / 2, bias_level=share / 2)

    def bias(self, metric: str, starts_count: int, level: float) -> float | None:
        """What the mean bias of so many starts stays below, wrong with a chance of `level`; None if unknown."""
        gains = np.array(self.aa_gains.get(metric, ()))
        if len(gains) == 0:
            return None
        spread = math.sqrt(float(np.mean(gains**2)))
        return -float(stdtrit(len(gains), level)) * spread / math.sqrt(starts_count)


Arms = OneEngine | TwoEngines


def two_engines(aa_pairs: Sequence[Pair]) -> TwoEngines:
    """What A/A pairs of several starts tell about the bias: all of their blocks were of one configuration.

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
    return TwoEngines(found)


def centre(gains: Floats) -> float:
    """Median of the means of all two gains: the centre of symmetry (Hodges, Lehmann, Ann. Math. Statist. 1963)."""
    left, right = np.triu_indices(len(gains))
    with np.errstate(invalid="ignore"):
        means = (gains[left] + gains[right]) / 2     # of a failure on each side: not a number, and left out
        return float(np.median(means[~np.isnan(means)]))
