"""What steps were off by, by their size."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.sim.step.scatter import LEAST, MOST_POOLS, Scatter


def test_short_steps_that_are_far_off_do_not_make_long_ones_longer() -> None:
    said = np.array([10.0] * 60 + [1000.0] * 60)
    ratio = np.array([1.0, 3.0] * 30 + [0.9, 1.1] * 30)
    scatter = Scatter.of(said, ratio)
    assert scatter.mean(np.array([10.0, 1000.0])).tolist() == [2.0, 1.0]
    assert scatter.pools[scatter.pool(1000.0)].max() == 1.1
    assert scatter.pools[scatter.pool(5000.0)].max() == 1.1


def test_totals_come_out_whatever_the_pools() -> None:
    pick = np.random.default_rng(0)
    said = pick.exponential(1e6, 500) + 1e5
    measured = said * pick.lognormal(0, 0.3, 500)
    scatter = Scatter.of(said, measured / said)
    assert len(scatter.pools) == MOST_POOLS
    assert (said * scatter.mean(said)).sum() == pytest.approx(measured.sum())


def test_few_steps_are_one_pool() -> None:
    assert len(Scatter.of(np.ones(LEAST + 1), np.ones(LEAST + 1)).pools) == 1
    assert len(Scatter.of(np.ones(3), np.ones(3)).pools) == 1
