from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from pellucid.tune.effect.pairs import DIRECTIONS, Block, Pair, toss
from tests.tune.effect.made import FAILED, PLAIN, SILENT, faster

UNSEEN = replace(PLAIN, ttft_p50_ns=None)


def test_more_tokens_and_less_time_are_both_a_gain() -> None:
    pair = Pair(PLAIN, faster(1.05), "ab")
    assert pair.gain("output_tokens_per_s") == pytest.approx(math.log(1.05))
    assert pair.gain("tpot_mean_ns") == pytest.approx(math.log(1.05))
    assert pair.gain("ttft_p95_ns") == 0.0


@pytest.mark.parametrize("metric", DIRECTIONS)
@pytest.mark.parametrize("failed", [FAILED, SILENT, replace(PLAIN, output_tokens_per_s=0.0)])
def test_a_failed_block_loses_in_every_metric(metric: str, failed: Block) -> None:
    assert Pair(PLAIN, failed, "ab").gain(metric) == -math.inf
    assert Pair(failed, PLAIN, "ab").gain(metric) == math.inf
    assert Pair(failed, FAILED, "ab").gain(metric) is None


def test_a_value_that_only_one_arm_has_is_a_gain_of_that_arm() -> None:
    assert Pair(UNSEEN, PLAIN, "ab").gain("ttft_p50_ns") == math.inf
    assert Pair(PLAIN, UNSEEN, "ab").gain("ttft_p50_ns") == -math.inf


def test_what_nobody_saw_says_nothing() -> None:
    assert Pair(UNSEEN, UNSEEN, "ab").gain("ttft_p50_ns") is None
    assert Pair(UNSEEN, FAILED, "ab").gain("ttft_p50_ns") is None


def test_goodput_of_nobody_asked_for_is_unseen_and_of_none_good_is_the_least() -> None:
    assert replace(PLAIN, good_count=None).goodput_per_s is None
    assert PLAIN.goodput_per_s == 0.8
    assert Pair(PLAIN, replace(PLAIN, good_count=0), "ab").gain("goodput_per_s") == -math.inf


def test_the_coin_is_fair_and_repeats_with_its_seed() -> None:
    coin = Random(1)
    tossed = [toss(coin) for _ in range(1000)]
    again = Random(1)
    assert tossed == [toss(again) for _ in range(1000)]
    assert 450 < tossed.count("ab") < 550


def test_swapping_exchanges_blocks_and_their_order() -> None:
    assert Pair(PLAIN, FAILED, "ab", 3).swapped() == Pair(FAILED, PLAIN, "ba", 3)
