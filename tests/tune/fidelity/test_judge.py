"""Evidence → one of five words."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from pellucid.tune.fidelity import Fidelity, Terms, Trouble, judge
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE, SURPRISE, UNLIKELY, Answered, measured
from pellucid.tune.fidelity.power import Corruption, halved, smallest_found
from tests.tune.fidelity.made import Arms, arms, evidence

QUICK = Terms(draws_count=499, tries_count=40)
SAME = Arms(prompts=60)


def judged(how: Arms, seed: int = 1, noise: float = 0.0) -> Fidelity:
    return judge(evidence(arms(seed, how), noise), np.random.default_rng(0), QUICK)


def test_equal_arms_are_the_same() -> None:
    found = judged(SAME)
    assert found.word == "same", found.reason
    assert {t.word for t in found.tasks} == {"same"}
    assert "of tokens would be found" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_another_temperature_is_different(temperature: float) -> None:
    found = judged(replace(SAME, temperature=temperature))
    assert found.word == "different"
    assert found.tasks[0].differences[0].p_adjusted <= 0.01


def test_a_task_that_differs_is_named_and_the_others_are_not() -> None:
    words = {t.task: t.word for t in judged(Arms(prompts=60, temperature=1.5, hit_task="code")).tasks}
    assert words["code"] == words["all"] == "different"
    assert words["chat"] == "same"


def test_greedy_answers_need_few_prompts() -> None:
    found = judged(Arms(prompts=8, asked=0.0001, temperature=0.0001))
    assert found.word == "same", found.reason


def test_few_prompts_are_inconclusive_with_the_number_needed() -> None:
    found = judged(Arms(prompts=8))
    assert found.word == "inconclusive"
    assert (found.tasks[0].prompts_needed_count or 0) > 8
    assert all(t.prompts_needed_count is None for t in found.tasks if t.word != "inconclusive")


def test_one_prompt_is_blind_for_no_corruption_would_be_found() -> None:
    found = judged(Arms(prompts=1, answers=1, temperature=3.0))
    assert found.word == "blind"
    assert "not even" in found.reason


def test_a_task_of_few_prompts_is_judged_with_the_others_only() -> None:
    found = judged(Arms(prompts=15, tasks=("chat", "code")))
    assert [t.task for t in found.tasks] == ["all", "chat"]
    assert found.notes == ("judged among all only, with fewer than 8 prompts: code",)


@pytest.mark.slow
def test_other_distributions_of_the_same_tokens_are_different() -> None:
    found = judged(SAME, noise=0.5)
    assert found.word == "different"
    assert found.reason.startswith("shown the same tokens")
    assert found.tasks[0].word == "same"


def test_without_tokens_shown_it_is_blind() -> None:
    found = judge(replace(evidence(arms(1, SAME)), pairs=[]), np.random.default_rng(0), QUICK)
    assert (found.word, found.forced) == ("blind", None)


def test_a_reference_that_drifts_is_blind_even_where_the_candidate_differs() -> None:
    drifting = [a for a in arms(2, replace(SAME, temperature=1.6)) if a.arm == CANDIDATE]
    steady = [a for a in arms(2, SAME) if a.arm == REFERENCE and not a.later]
    candidate = [replace(a, later=False) for a in arms(2, SAME) if a.arm == CANDIDATE]
    answers = [*steady, *candidate, *(replace(a, arm=REFERENCE, later=True) for a in drifting)]
    found = judge(evidence(answers), np.random.default_rng(0), Terms(draws_count=1999, tries_count=10))
    assert found.word == "blind"
    assert "differs from itself" in found.reason


def test_a_reference_that_answered_once_is_blind() -> None:
    answers = [a for a in arms(1, SAME) if not a.later]
    assert "did not answer twice" in judge(evidence(answers), np.random.default_rng(0)).reason


@pytest.mark.parametrize(("arm", "word"), [(CANDIDATE, "failed"), (REFERENCE, "blind")])
def test_trouble_is_the_verdict(arm: str, word: str) -> None:
    troubles = (Trouble(arm, "hang", "asked for an answer", "no answer within 5 s"),) * 3
    found = judge(evidence(arms(1, SAME), troubles=troubles), np.random.default_rng(0))
    assert (found.word, found.tasks, found.forced) == (word, (), None)
    assert found.reason == f"the {arm}, asked for an answer: no answer within 5 s (3 requests)"


@pytest.mark.parametrize(("arm", "word"), [(CANDIDATE, "failed"), (REFERENCE, "blind")])
def test_empty_answers_are_the_verdict(arm: str, word: str) -> None:
    answers = [replace(a, text="") if a.arm == arm else a for a in arms(1, SAME)]
    found = judge(evidence(answers), np.random.default_rng(0))
    assert found.word == word
    assert "empty" in found.reason


def test_broken_json_is_different() -> None:
    def broken(a: Answered) -> Answered:
        return replace(a, wants_json=True, text="{" if a.arm == CANDIDATE and a.prompt % 2 else "{}")

    found = judge(evidence([broken(a) for a in arms(1, SAME)]), np.random.default_rng(0), QUICK)
    assert found.word == "different"
    assert "not_json" in found.reason


def test_one_answer_for_everybody_is_different_though_it_is_as_likely_as_any() -> None:
    """Each prompt's first answer of the candidate stands for its second too."""
    answers, first = [], dict[int, Answered]()
    for a in arms(1, replace(SAME, tokens=12)):
        answers.append(first.setdefault(a.prompt, a) if a.arm == CANDIDATE else a)
    found = judge(evidence(answers), np.random.default_rng(0), QUICK)
    assert found.word == "different"
    assert "twins +1" in found.reason


def test_nothing_answered_is_blind() -> None:
    assert judge(evidence([]), np.random.default_rng(0)).word == "blind"


def test_the_same_evidence_gives_the_same_verdict_and_it_is_json() -> None:
    one, other = judged(Arms(prompts=12)), judged(Arms(prompts=12))
    assert one == other
    said = msgspec.json.decode(msgspec.json.encode(one.json()))
    assert said["tasks"][0]["task"] == "all"
    assert said["terms"]["margin_nats"] == 0.1
    row = said["tasks"][0]["differences"][0]
    assert {"name", "difference", "low", "high", "p_adjusted", "floor_difference"} <= set(row)


@pytest.mark.slow
def test_more_prompts_find_smaller_corruptions() -> None:
    def least(prompts: int) -> float:
        own = [a for a in arms(1, Arms(prompts=prompts)) if a.arm == REFERENCE]
        groups = [frozenset({"chat", "code"})]
        found = smallest_found(Corruption(own, measured(own)), groups, 3.0, 100, np.random.default_rng(0))[0]
        assert found is not None
        return found

    assert least(80) < least(20) < least(5)


def test_a_corruption_touches_the_answers_it_is_given_and_as_many_tokens_as_said() -> None:
    own = [a for a in arms(1, Arms(prompts=40)) if a.arm == REFERENCE]
    corruption, random = Corruption(own, measured(own)), np.random.default_rng(0)
    half = halved(corruption.table.prompts, random)
    untouched, some, all_of_them = (corruption.table_of(r, half, random).values for r in (0.0, 0.3, 1.0))
    assert untouched == pytest.approx(corruption.table.values)
    assert all_of_them[~half] == pytest.approx(corruption.table.values[~half])
    assert all_of_them[half, UNLIKELY] == pytest.approx(np.ones(half.sum()))
    before = untouched[half, UNLIKELY].mean()
    assert some[half, UNLIKELY].mean() == pytest.approx(before + 0.3 * (1 - before), abs=0.03)
    assert all_of_them[half, SURPRISE].mean() < some[half, SURPRISE].mean() < untouched[half, SURPRISE].mean()


def test_halves_are_half_of_the_answers_to_each_prompt() -> None:
    picked = halved(np.array([5, 5, 5, 5, 7, 7, 7, 9]), np.random.default_rng(0))
    assert (picked[:4].sum(), picked[4:7].sum(), picked[7]) == (2, 1, False)
