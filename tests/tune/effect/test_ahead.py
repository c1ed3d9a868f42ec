from __future__ import annotations

import numpy as np
import pytest

from pellucid.tune.effect.ahead import LEAST_PAIRS, all_of, first_of
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.arms import OneEngine
from pellucid.tune.effect.judge import judge
from pellucid.tune.effect.spend import Spend
from tests.tune.effect.made import pairs_of


def needed(gains: list[float]) -> float | None:
    return judge(pairs_of(gains), Spend(1), Aim(), OneEngine()).minutes_needed


def scattered(count: int, sigma: float, effect: float) -> list[float]:
    return list(effect + sigma * np.random.default_rng(4).standard_normal(count))


def test_a_forecast_needs_some_pairs() -> None:
    assert needed([0.05] * (LEAST_PAIRS - 1)) is None
    assert needed([0.05] * LEAST_PAIRS) is not None


def test_after_a_verdict_nothing_more_is_needed() -> None:
    assert needed([0.05] * 20) == 0.0


def test_the_forecast_is_about_what_it_then_takes() -> None:
    gains = scattered(120, sigma=0.05, effect=0.04)
    points = judge(pairs_of(gains), Spend(1), Aim(), OneEngine()).metrics[0].points
    took = next(point.pairs_count for point in points if point.word != "inconclusive")
    forecast, left_minutes = needed(gains[:took // 2]), (took - took // 2) * 20 / 60
    assert forecast is not None and left_minutes / 3 < forecast < left_minutes * 3


def test_more_scatter_needs_more_minutes() -> None:
    calm, wild = (needed(scattered(12, sigma, 0.02)) for sigma in (0.02, 0.04))
    assert calm is not None and (wild is None or wild > calm)


@pytest.mark.parametrize(("counts", "all_", "first"), [
    ([3.0, 5.0], 5.0, 3.0), ([3.0, None], None, 3.0), ([None], None, None), ([0.0, 2.0], 2.0, 0.0),
])  # fmt: skip
def test_all_of_waits_for_the_last_and_first_of_for_none(
    counts: list[float | None], all_: float | None, first: float | None,
) -> None:
    assert (all_of(counts), first_of(counts)) == (all_, first)
