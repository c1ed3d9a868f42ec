"""A/A with a look after each pair: ours stays within its level; a t-test that is looked at as often does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pellucid.tune.effect.sequence import Floats, bounds

LEVEL, TRIALS, LOOKS = 0.05, 300, 20
# Three standard errors of a share of LEVEL over TRIALS.
ALLOWED = LEVEL + 3 * (LEVEL * (1 - LEVEL) / TRIALS) ** 0.5


def autocorrelated(rng: np.random.Generator) -> Floats:
    """Pairs whose blocks follow a walk that forgets slowly."""
    level, found = 0.0, []
    for _ in range(2 * LOOKS):
        level = 0.95 * level + 0.05 * rng.standard_normal()
        found.append(level)
    return np.diff(np.array(found).reshape(LOOKS, 2))[:, 0] + 0.03      # drift: the second is always faster


NOISES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "gaussian": lambda rng: 0.05 * rng.standard_normal(LOOKS),
    "heavy": lambda rng: 0.03 * rng.standard_t(1.5, LOOKS),
    "clusters": lambda rng: 0.45 * (rng.random(LOOKS) < 0.3) + 0.02 * rng.standard_normal(LOOKS),
    "drift": autocorrelated,
}


def tossed(noise: str) -> list[Floats]:
    rng = np.random.default_rng(3)
    return [NOISES[noise](rng) * rng.choice([-1.0, 1.0], LOOKS) for _ in range(TRIALS)]


def t_test_is_ever_below(gains: Floats) -> bool:
    counts = range(3, LOOKS + 1)
    return any(stats.ttest_1samp(gains[:count], 0, alternative="greater").pvalue < LEVEL for count in counts)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_looking_after_each_pair_costs_no_level(noise: str) -> None:
    called = sum(bounds(gains, LEVEL).low[-1] > 0 for gains in tossed(noise))
    assert called / TRIALS <= ALLOWED


@pytest.mark.slow
def test_the_true_effect_is_inside_as_often_as_said() -> None:
    missed = 0
    for gains in tossed("heavy"):
        ends = bounds(gains + 0.05, LEVEL)
        missed += not ends.low[-1] <= 0.05 <= ends.high[-1]
    assert missed / TRIALS <= 2 * ALLOWED


@pytest.mark.slow
def test_a_t_test_looked_at_as_often_is_over_its_level() -> None:
    called = sum(t_test_is_ever_below(gains) for gains in tossed("gaussian")[:100])
    assert called / 100 > ALLOWED
