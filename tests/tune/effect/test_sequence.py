from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.tune.effect.sequence import SCALES, Floats, bounds, wealth_log

gains = st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=20).map(np.array)

# What a machine may have done in nine pairs; under A/A the coin gives each its sign.
SCATTER = {
    "even": np.full(9, 0.03),
    "heavy": np.array([0.01, 0.02, 0.9, 0.01, 0.03, 0.02, 0.01, 2.0, 0.02]),
    "drift": np.linspace(0.001, 0.1, 9),
    "clusters": np.array([0.45, 0.02, 0.01, 0.45, 0.45, 0.02, 0.45, 0.01, 0.02]),
}


def all_signs(scatter: Floats) -> list[Floats]:
    return [scatter * np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=len(scatter))]


@pytest.mark.slow
@pytest.mark.parametrize("scatter", SCATTER.values(), ids=SCATTER)
def test_of_all_ways_the_coin_can_fall_no_more_than_the_level_are_ever_called_better(scatter: Floats) -> None:
    level = 0.05
    called = [bounds(gains, level).low[-1] > 0 for gains in all_signs(scatter)]
    assert sum(called) / len(called) <= level
    assert bounds(np.abs(scatter), level).low[-1] > 0


@pytest.mark.parametrize("scatter", SCATTER.values(), ids=SCATTER)
def test_over_all_ways_the_coin_can_fall_the_mean_wealth_stays_one(scatter: Floats) -> None:
    wealth = np.mean([np.exp(wealth_log(gains, 0.0)) for gains in all_signs(scatter)], axis=0)
    assert wealth == pytest.approx(np.ones((len(SCALES), len(scatter))))


@given(gains)
@settings(max_examples=25, deadline=None)
def test_ends_never_widen(found: Floats) -> None:
    ends = bounds(found, 0.05)
    assert (ends.low[1:] >= ends.low[:-1]).all() and (ends.high[1:] <= ends.high[:-1]).all()


@given(gains)
@settings(max_examples=25, deadline=None)
def test_what_comes_later_changes_no_earlier_end(found: Floats) -> None:
    half = len(found) // 2
    whole, part = bounds(found, 0.05), bounds(found[:half], 0.05)
    assert np.allclose(whole.low[:half], part.low, atol=1e-5) and np.allclose(whole.high[:half], part.high, atol=1e-5)


@given(gains, st.floats(-1, 1))
@settings(max_examples=25, deadline=None)
def test_ends_move_with_the_gains(found: Floats, by: float) -> None:
    assert bounds(found + by, 0.05).low == pytest.approx(bounds(found, 0.05).low + by, abs=1e-5)


def test_a_smaller_level_is_a_wider_interval() -> None:
    found = np.full(20, 0.05) + np.tile([-0.01, 0.01], 10)
    assert bounds(found, 0.001).low[-1] < bounds(found, 0.05).low[-1] < 0.05 < bounds(found, 0.05).high[-1]


def test_an_outlier_costs_but_does_not_end_the_game() -> None:
    steady = np.full(30, 0.05)
    broken = steady.copy()
    broken[3] = -np.inf
    assert bounds(steady, 0.01).low[9] > 0 >= bounds(broken, 0.01).low[9]
    assert bounds(broken, 0.01).low[-1] > 0


def test_without_gains_there_is_no_end() -> None:
    assert len(bounds(np.empty(0), 0.05).low) == 0
    assert bounds(np.array([0.1, 0.1]), 0.05).low.tolist() == [-np.inf, -np.inf]
