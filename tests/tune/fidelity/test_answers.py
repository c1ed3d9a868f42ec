"""Numbers of single answers: what surprises, what repeats, what is JSON."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pellucid.collect.client.scores import Scores
from pellucid.tune.fidelity.answers import (
    ABSURD,
    LENGTH,
    NOT_JSON,
    REFERENCE,
    REPETITION,
    SURPRISE,
    TWINS,
    UNLIKELY,
    Answered,
    expected,
    measured,
    once,
    repetition,
    surprises,
    tail,
)
from tests.tune.fidelity.made import Arms, arms, sampled, shown

TWO = np.log([0.6, 0.3])


def said(ids: list[int], logps: list[float], temperature: float | None = None) -> Answered:
    """Tokens 0 and 1 are the likeliest at each place, with 0.6 and 0.3."""
    count = len(ids)
    scores = Scores(np.array(ids, dtype=np.int64), np.array(logps, dtype=float), np.tile([0, 1], (count, 1)),
                    np.tile(TWO, (count, 1)))  # fmt: skip
    return Answered(0, "chat", REFERENCE, scores, "text", temperature)


def test_what_is_expected_is_the_mean_over_the_tokens() -> None:
    """0.6 ln 0.6 + 0.3 ln 0.3 + 0.1 (ln 0.1 - 2)"""
    by_hand = 0.6 * np.log(0.6) + 0.3 * np.log(0.3) + 0.1 * (np.log(0.1) - 2)
    assert expected(said([0], [TWO[0]]), tail_nats=-2.0) == pytest.approx([by_hand])


def test_greedily_the_likeliest_is_expected() -> None:
    greedy = said([0, 1], [TWO[0], TWO[1]], temperature=0.0)
    assert surprises(greedy, -2.0) == pytest.approx([0.0, TWO[1] - TWO[0]])


def test_colder_sampling_is_expected_to_be_likelier() -> None:
    cold, warm, hot = (expected(said([0], [TWO[0]], t), -2.0)[0] for t in (0.5, 1.0, 2.0))
    assert cold > warm > hot


def test_the_tail_is_how_far_unlikely_tokens_are_below_their_sum() -> None:
    assert tail([said([0, 7, 9], [TWO[0], np.log(0.1) - 3, np.log(0.1) - 5])]) == pytest.approx(-4.0)
    assert tail([said([0], [TWO[0]])]) == 0.0
    assert tail([]) == 0.0


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.4])
def test_samples_are_as_likely_as_expected(temperature: float) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (4000, 60))
    answer = Answered(0, "chat", REFERENCE, shown(logits, sampled(logits, temperature, random)), "", temperature)
    assert surprises(answer, tail([answer])).mean() == pytest.approx(0.0, abs=0.05)


def test_the_columns_of_an_answer() -> None:
    row = measured([said([0, 9, 9], [TWO[0], -14.0, -8.0])]).values[0]
    assert row[UNLIKELY] == pytest.approx(2 / 3)
    assert row[ABSURD] == pytest.approx(1 / 3)
    assert row[LENGTH] == pytest.approx(np.log(4))
    assert row[NOT_JSON] == row[REPETITION] == 0.0


def test_no_tokens_are_no_surprise_and_no_length() -> None:
    row = measured([said([], [])]).values[0]
    assert row[SURPRISE] == row[LENGTH] == 0.0
    assert np.isfinite(row).all()


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [('{"a": 1}', True, 0.0), ('{"a": 1', True, 1.0), ("", True, 1.0), ("words", False, 0.0), ("[NaN]", True, 0.0)],
)
def test_json_is_judged_where_it_was_asked_for(text: str, wanted: bool, value: float) -> None:
    scores = said([0], [TWO[0]]).scores
    assert measured([Answered(0, "json", REFERENCE, scores, text, wants_json=wanted)]).values[0, NOT_JSON] == value


def test_runs_of_four_that_come_again_are_counted() -> None:
    assert repetition(np.array([1, 2, 3, 4, 1, 2, 3, 4])) == pytest.approx(1 / 5)
    assert repetition(np.array([7] * 20)) == pytest.approx(16 / 17)
    assert repetition(np.array([1, 2, 3])) == 0.0


def test_answers_to_one_prompt_that_are_equal_are_twins() -> None:
    one, other, third = said([0, 1], [TWO[0], TWO[1]]), said([0, 1], [TWO[0], TWO[1]]), said([1, 1], [TWO[1], TWO[1]])
    elsewhere = replace(one, prompt=5)
    assert measured([one, other, third, elsewhere]).values[:, TWINS].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_greedy_answers_that_an_arm_gave_twice_are_one() -> None:
    greedy, drawn = said([0, 1], [TWO[0], TWO[1]], 0.0), said([0, 1], [TWO[0], TWO[1]], 1.0)
    later, other = replace(greedy, later=True), said([1, 1], [TWO[1], TWO[1]], 0.0)
    assert once([greedy, greedy, later, other]) == [greedy, later, other]
    assert once([drawn, drawn]) == [drawn, drawn]


def test_a_table_keeps_order_and_arms() -> None:
    table = measured(arms(1, Arms(prompts=3)))
    assert table.candidate.tolist() == [False, False, True, True, False, False] * 3
    assert table.later.tolist() == [False] * 4 + [True] * 2 + [False] * 4 + [True] * 2 + [False] * 4 + [True] * 2
    assert table.prompts.tolist() == [0] * 6 + [1] * 6 + [2] * 6
