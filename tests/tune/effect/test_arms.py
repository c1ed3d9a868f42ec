from __future__ import annotations

import math

import numpy as np
import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.tune.effect.arms import OneEngine, TwoEngines, centre, two_engines
from pellucid.tune.effect.pairs import Pair
from tests.tune.effect.made import FAILED, PLAIN, pairs_of

SEEN = {"tpot_mean_ns": (0.03, -0.03, 0.03, -0.03)}     # standard deviation: 0.03 · √(4/3)


def test_one_engine_has_no_bias() -> None:
    assert OneEngine().bias("tpot_mean_ns", 0.01) == 0.0
    assert OneEngine().noise_level(0.01) == 0.01


def test_the_bias_of_two_engines_is_that_of_their_starts_by_students_t() -> None:
    spread = 0.03 * math.sqrt(4 / 3)
    assert TwoEngines(SEEN, 2).bias("tpot_mean_ns", 0.05) == pytest.approx(3.182 * spread / math.sqrt(2), rel=1e-3)
    assert TwoEngines(SEEN, 4).bias("tpot_mean_ns", 0.05) == pytest.approx(3.182 * spread / 2, rel=1e-3)   # t of 3


def test_what_a_place_does_cancels_for_each_arm_is_in_both() -> None:
    moved = {"tpot_mean_ns": [gain + 0.15 for gain in SEEN["tpot_mean_ns"]]}
    assert TwoEngines(moved).bias("tpot_mean_ns", 0.05) == pytest.approx(TwoEngines(SEEN).bias("tpot_mean_ns", 0.05))


def test_starts_that_cannot_be_shared_evenly_between_places_are_refused() -> None:
    with pytest.raises(AskedWrongly, match="2, 4"):
        TwoEngines(SEEN, 3)


def test_a_bias_that_nobody_measured_is_unknown_and_not_zero() -> None:
    assert TwoEngines().bias("tpot_mean_ns", 0.01) is None
    assert TwoEngines({"tpot_mean_ns": (0.03,)}).bias("tpot_mean_ns", 0.01) is None
    assert TwoEngines(SEEN).bias("ttft_p50_ns", 0.01) is None


def test_each_start_of_a_a_gives_one_gain() -> None:
    aa = pairs_of([0.02, 0.04, 0.03], start=0) + pairs_of([-0.01], start=1)
    assert two_engines(aa).aa_gains["output_tokens_per_s"] == pytest.approx((0.03, -0.01))


def test_a_start_of_a_a_in_which_one_engine_failed_makes_the_bias_unbounded() -> None:
    arms = two_engines([*pairs_of([0.02, 0.02]), Pair(PLAIN, FAILED, "ab", 1)])
    assert arms.bias("output_tokens_per_s", 0.01) == math.inf


def test_the_centre_is_not_moved_by_an_outlier_and_bears_failures_of_both() -> None:
    assert centre(np.array([0.01, 0.02, 0.03, 0.04, 9.0])) == pytest.approx(0.03)
    assert centre(np.array([0.01, 0.02, 0.03, math.inf, -math.inf])) == pytest.approx(0.02)
