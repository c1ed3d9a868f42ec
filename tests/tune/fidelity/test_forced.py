"""Distances of distributions that are known in part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pellucid.collect.client.scores import Scores
from pellucid.tune.fidelity.forced import distances, divergence, mean_bounds, same_first
from tests.tune.fidelity.made import shown


def named(*pairs: tuple[int, float]) -> Scores:
    """One token's likeliest: (token, probability)."""
    ids, ps = zip(*sorted(pairs, key=lambda p: -p[1]), strict=True)
    return Scores(np.array([0]), np.zeros(1), np.array([ids]), np.log([ps]))


@pytest.mark.parametrize(
    ("reference", "candidate", "outcomes"),
    [
        (((1, 0.6), (2, 0.3)), ((1, 0.5), (2, 0.35)), ([0.6, 0.3, 0.1], [0.5, 0.35, 0.15])),
        (((1, 0.6), (2, 0.3)), ((2, 0.5), (1, 0.2)), ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])),
        (((1, 0.6), (2, 0.3)), ((1, 0.5), (9, 0.35)), ([0.6, 0.4], [0.5, 0.5])),
        (((1, 0.6), (2, 0.3)), ((8, 0.5), (9, 0.35)), ([1.0], [1.0])),
    ],
)
def test_the_divergence_is_that_of_what_both_name_and_one_rest(
    reference: tuple[tuple[int, float], ...], candidate: tuple[tuple[int, float], ...],
    outcomes: tuple[list[float], list[float]],
) -> None:  # fmt: skip
    found = divergence(named(*reference), named(*candidate))
    assert found == pytest.approx([stats.entropy(*outcomes)], abs=1e-12)


def test_the_same_is_no_distance_away() -> None:
    one = named((1, 0.7), (2, 0.3 - 1e-13))
    assert divergence(one, one) == pytest.approx([0.0])


@given(st.integers(0, 10**6), st.floats(0, 3))
def test_it_is_a_lower_bound_of_the_whole_divergence(seed: int, noise: float) -> None:
    random = np.random.default_rng(seed)
    a = random.normal(0, 2, (8, 60))
    b = a + random.normal(0, 1, a.shape) * noise
    ids = np.zeros(8, dtype=np.int64)
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (a, b))
    found = divergence(shown(a, ids), shown(b, ids))
    assert (found >= 0).all()
    assert (found <= stats.entropy(p, q, axis=1) + 1e-9).all()


def test_a_shared_first_place_is_held_by_both() -> None:
    tied = named((1, 0.4), (2, 0.4), (3, 0.1))
    assert same_first(tied, named((2, 0.5), (1, 0.3), (3, 0.1))).tolist() == [True]
    assert same_first(tied, named((3, 0.5), (1, 0.3), (2, 0.1))).tolist() == [False]


def test_texts_are_averaged_one_by_one() -> None:
    a, b = named((1, 0.6), (2, 0.3)), named((1, 0.5), (2, 0.35))
    found = distances([(a, a), (a, b)])
    assert found.kl_nats == pytest.approx([0.0, stats.entropy([0.6, 0.3, 0.1], [0.5, 0.35, 0.15])])
    assert found.agreeing_ratio.tolist() == [1.0, 1.0]


def test_bounds_hold_the_mean_and_shrink_with_texts() -> None:
    random = np.random.default_rng(0)
    few, many = random.exponential(1, 10), random.exponential(1, 1000)
    low, high = mean_bounds(few, 0.05, 2000, random)
    lower, higher = mean_bounds(many, 0.05, 2000, random)
    assert low < few.mean() < high and lower < many.mean() < higher
    assert higher - lower < (high - low) / 5
