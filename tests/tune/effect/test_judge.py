from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly
from pellucid.tune.effect.aim import Aim, Guard
from pellucid.tune.effect.arms import OneEngine, TwoEngines
from pellucid.tune.effect.judge import Effect, Point, judge
from pellucid.tune.effect.pairs import Block, Pair
from pellucid.tune.effect.spend import Spend
from tests.tune.effect.made import FAILED, PLAIN, SILENT, pairs_of

MIRRORED = {"better": "worse", "worse": "better"}
gains = st.lists(st.one_of(st.floats(-0.3, 0.3), st.floats(0.03, 0.08)), min_size=2, max_size=16)
SCATTER = np.tile([0.01, -0.01, 0.02, -0.02], 6)
QUIET_STARTS = TwoEngines({"output_tokens_per_s": (0.004, -0.004) * 4})
NOISY_STARTS = TwoEngines({"output_tokens_per_s": (0.07, -0.07) * 4})


def judged(pairs: list[Pair], aim: Aim | None = None) -> Effect:
    return judge(pairs, Spend(1), aim, OneEngine())


def slower_first_tokens(pairs: list[Pair], factor: float) -> list[Pair]:
    return [replace(pair, b=replace(pair.b, ttft_p95_ns=9e8 * factor)) for pair in pairs]


@pytest.mark.parametrize(("effect", "word"), [
    (0.06, "better"), (-0.06, "worse"), (0.0, "no difference"), (0.028, "better"), (0.008, "inconclusive"),
])  # fmt: skip
def test_words(effect: float, word: str) -> None:
    assert judged(pairs_of(SCATTER + effect), Aim(margin_ratio=0.015)).word == word


def test_a_latency_is_better_where_it_falls() -> None:
    effect = judged(pairs_of(SCATTER + 0.06), Aim(goal="tpot_mean_ns"))
    last = effect.metrics[0].points[-1]
    assert effect.word == "better" and last.low_ratio is not None and last.high_ratio is not None
    assert last.ratio == pytest.approx(np.exp(-0.06)) and last.low_ratio < np.exp(-0.06) < last.high_ratio < 1


@given(gains)
@settings(max_examples=20, deadline=None)
def test_swapping_the_arms_mirrors_every_word_and_end(found: list[float]) -> None:
    pairs = pairs_of(found)
    ours, theirs = judged(pairs), judged([pair.swapped() for pair in pairs])
    for here, there in zip(ours.metrics[0].points, theirs.metrics[0].points, strict=True):
        assert there.word == MIRRORED.get(here.word, here.word)
        assert mirrored(there) == pytest.approx((here.low_ratio or 0, here.high_ratio or 0))


def ends(effect: Effect) -> list[float]:
    """All ratios and ends of the goal over time, 0 where there is none."""
    return [
        value or 0.0 for point in effect.metrics[0].points for value in (point.ratio, point.low_ratio, point.high_ratio)
    ]


def mirrored(point: Point) -> tuple[float, float]:
    return (1 / point.high_ratio if point.high_ratio else 0, 1 / point.low_ratio if point.low_ratio else 0)


@given(gains, st.floats(0.01, 100))
@settings(max_examples=20, deadline=None)
def test_scaling_both_arms_changes_nothing(found: list[float], factor: float) -> None:
    def scaled(block: Block) -> Block:
        return replace(block, output_tokens_per_s=(block.output_tokens_per_s or 0) * factor)

    pairs = pairs_of(found)
    one, other = judged(pairs), judged([replace(pair, a=scaled(pair.a), b=scaled(pair.b)) for pair in pairs])
    assert ends(other) == pytest.approx(ends(one), abs=1e-4)


@given(gains, st.integers(1, 16))
@settings(max_examples=20, deadline=None)
def test_what_was_said_early_is_what_the_whole_says_of_that_time(found: list[float], count: int) -> None:
    pairs = pairs_of(found)
    early = ends(judged(pairs[:count]))
    assert ends(judged(pairs))[:len(early)] == pytest.approx(early, abs=1e-4)


@pytest.mark.parametrize("failed", [FAILED, SILENT])
def test_a_failed_block_keeps_the_candidate_from_being_better_and_three_make_it_worse(failed: Block) -> None:
    pairs = pairs_of(SCATTER + 0.06)
    words = []
    for count in (0, 1, 3):
        broken = [replace(pair, b=failed) for pair in pairs[:count]]
        words.append(judged(broken + pairs[count:]).word)
    assert words == ["better", "inconclusive", "worse"]


def test_failures_of_the_machine_that_hit_both_alike_are_counted_and_told() -> None:
    pairs = pairs_of(SCATTER + 0.06)
    effect = judged([Pair(FAILED, FAILED, "ab"), *pairs])
    assert (effect.word, effect.failed_a_count, effect.failed_b_count) == ("better", 1, 1)
    assert len(effect.notes) == 2 and "3 of 10 requests failed" in effect.notes[0]


def test_a_guard_has_to_be_shown_to_hold() -> None:
    aim = Aim(guards=(Guard("ttft_p95_ns", margin_ratio=0.1),))
    pairs = pairs_of(SCATTER + 0.06)
    words = [judged(slower_first_tokens(pairs, factor), aim).word for factor in (1.0, 1.05, 1.1, 1.2)]
    assert words == ["better", "better", "inconclusive", "worse"]


def test_a_guard_that_nobody_saw_does_not_hold() -> None:
    blind = replace(PLAIN, ttft_p95_ns=None)
    pairs = [replace(pair, a=blind, b=replace(pair.b, ttft_p95_ns=None)) for pair in pairs_of(SCATTER + 0.06)]
    effect = judged(pairs, Aim(guards=(Guard("ttft_p95_ns"),)))
    assert effect.word == "inconclusive" and "ttft_p95_ns" in effect.reason and effect.minutes_needed is None


def test_while_one_arm_always_came_first_nothing_is_said() -> None:
    effect = judged([replace(pair, order="ab") for pair in pairs_of(SCATTER + 0.06)])
    assert effect.word == "inconclusive" and "order ab" in effect.notes[0]


def test_unequal_requests_are_noted() -> None:
    pairs = pairs_of([0.0, 0.0])
    assert judged([pairs[0], replace(pairs[1], b=replace(PLAIN, requests_count=9))]).notes[0].startswith("in 1 of 2")


def test_two_engines_of_unknown_bias_give_no_verdict() -> None:
    effect = judge(pairs_of(SCATTER + 0.06), Spend(1))
    assert effect.word == "inconclusive" and "A/A" in effect.reason and effect.minutes_needed is None


def test_an_effect_within_what_two_engines_differ_by_is_open_whatever_the_pairs() -> None:
    pairs = [*pairs_of(SCATTER + 0.06, start=0), *pairs_of(SCATTER + 0.06, start=1)]
    quiet, noisy = (judge(pairs, Spend(1), Aim(), arms) for arms in (QUIET_STARTS, NOISY_STARTS))
    assert (quiet.word, noisy.word) == ("better", "inconclusive")
    assert "more starts help" in noisy.reason and noisy.minutes_needed is None


def test_before_all_starts_of_a_trial_have_begun_nothing_is_said_and_more_than_planned_are_refused() -> None:
    pairs = pairs_of(SCATTER + 0.06)
    effect = judge(pairs, Spend(1), Aim(), QUIET_STARTS)
    assert effect.word == "inconclusive" and "2 starts" in effect.reason
    with pytest.raises(AskedWrongly, match="3 starts"):
        judge([*pairs, *pairs_of([0.0], start=1), *pairs_of([0.0], start=2)], Spend(1), Aim(), QUIET_STARTS)


def test_starts_that_contradict_each_other_are_averaged() -> None:
    there_and_back = pairs_of(SCATTER + 0.06, start=0) + pairs_of(SCATTER - 0.06, start=1)
    middle = judge(there_and_back, Spend(1), Aim(), NOISY_STARTS).metrics[0].points[-1].ratio
    assert middle == pytest.approx(1.0)


def test_a_change_on_the_way_is_no_single_effect() -> None:
    effect = judged(pairs_of([*(SCATTER + 0.2), *(SCATTER - 0.2), *(SCATTER - 0.2), *(SCATTER - 0.2)]))
    assert effect.word == "inconclusive" and "changed on the way" in effect.reason


def test_no_pairs_are_no_verdict() -> None:
    effect = judged([])
    assert (effect.word, effect.minutes_needed, effect.minutes_spent) == ("inconclusive", None, 0.0)


def test_a_metric_that_no_block_has_is_refused() -> None:
    with pytest.raises(AskedWrongly, match="goodput_per_s"):
        Aim(goal="speed")
    with pytest.raises(AskedWrongly, match="margin"):
        Guard("ttft_p95_ns", margin_ratio=5)
