"""Two engines over HTTP → a verdict. The engines are small, and wrong in known ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.units import S_NS
from pellucid.verbs.loop.fidelity import ONE_ENGINE, Chosen, Engines, Fidelity, Plan, Terms, fidelity
from pellucid.verbs.loop.judging.gather import Turn
from pellucid.verbs.loop.judging.prompted import of_file, own
from pellucid.workload.neutral import Prompt
from tests.verbs.loop.small_engine import Engine, engine_of, small_engine

PLAN = Plan(60 * S_NS, max_tokens=16, timeout_s=5.0)
QUICK = Terms(draws_count=999, tries_count=40, margin_nats=0.25)


def judged(candidate: str, reference: str, prompts: int = 8, plan: Plan = PLAN) -> Fidelity:
    return fidelity(Engines(candidate, reference), short(prompts), plan, QUICK)


def short(count: int) -> Chosen:
    return Chosen([Prompt("code" if n % 2 else "chat", f"prompt {n}") for n in range(count)], "short ones")


@pytest.mark.slow
def test_an_engine_is_the_same_as_itself() -> None:
    with small_engine() as one, small_engine() as other:
        found = judged(one, other, prompts=40)
    assert found.word == "same", found.reason
    assert [t.task for t in found.tasks] == ["all", "chat", "code"]
    assert found.forced is not None and found.forced.kl_nats == 0.0 and found.forced.agreeing_ratio == 1.0
    assert found.notes == ()


@pytest.mark.slow
def test_another_temperature_than_asked_is_different_and_is_not_seen_by_showing_tokens() -> None:
    with small_engine(temperature=1.5) as hot, small_engine() as reference:
        found = judged(hot, reference, prompts=16)
    assert found.word == "different"
    assert "surprise -" in found.reason
    assert found.forced is not None and found.forced.word == "same"


@pytest.mark.slow
def test_other_weights_are_different() -> None:
    with small_engine(noise=1.0) as noisy, small_engine() as reference:
        found = judged(noisy, reference, prompts=16)
    assert found.word == "different"
    assert found.forced is not None and found.forced.word == "different"


@pytest.mark.slow
def test_few_prompts_are_inconclusive_and_the_number_needed_is_told() -> None:
    with small_engine() as one, small_engine() as other:
        found = judged(one, other, prompts=4)
    assert found.word == "inconclusive", found.reason
    assert (found.tasks[0].prompts_needed_count or 0) > 4


@pytest.mark.parametrize(
    ("kind", "after", "says"),
    [("error", 0, "HTTP 500"), ("error", 20, "HTTP 500"),
     pytest.param("hang", 5, "no answer within", marks=pytest.mark.slow),
     ("empty", 0, "100% of the candidate's answers are empty"), ("nan", 0, "a log-probability in the reply is None"),
     ("no_ids", 0, "no token ids"), ("no_logprobs", 0, "the reply has none"), ("tokenizer", 0, "another tokenizer"),
     ("no_model", 0, "names no model"), ("no_json", 0, "no JSON")],
)  # fmt: skip
def test_a_candidate_that_cannot_be_judged_failed(kind: str, after: int, says: str) -> None:
    plan = Plan(60 * S_NS, max_tokens=8, timeout_s=1.0)
    with small_engine(kind, after) as wrong, small_engine() as reference:
        found = judged(wrong, reference, plan=plan)
    assert (found.word, found.tasks) == ("failed", ())
    assert "the candidate" in found.reason and says in found.reason


@pytest.mark.parametrize("kind", ["error", pytest.param("hang", marks=pytest.mark.slow), "empty", "nan", "no_logprobs"])
def test_a_reference_that_cannot_judge_is_blind(kind: str) -> None:
    plan = Plan((2 if kind == "hang" else 60) * S_NS, max_tokens=8)
    with small_engine() as candidate, small_engine(kind) as wrong:
        found = judged(candidate, wrong, plan=plan)
    assert found.word == "blind"
    assert "the reference" in found.reason


def test_nobody_at_the_candidates_address_is_failed() -> None:
    with small_engine() as gone:
        pass
    with small_engine() as reference:
        found = judged(gone, reference)
    assert found.word == "failed"


def test_a_budget_that_ends_before_the_first_prompt_is_blind() -> None:
    ticks = iter(range(0, 10**15, 100 * S_NS))
    with small_engine() as one, small_engine() as other:
        found = fidelity(Engines(one, other), short(8), PLAN, QUICK, clock=lambda: next(ticks))
    assert found.word == "blind"
    assert "budget" in found.reason


@pytest.mark.slow
def test_a_budget_that_ends_between_is_told() -> None:
    ticks = iter([0, 0, 0, 0, 10 * S_NS, 10 * S_NS, 10 * S_NS, 30 * S_NS, *[70 * S_NS] * 9])
    with small_engine() as one, small_engine() as other:
        found = fidelity(Engines(one, other), short(32), PLAN, QUICK, clock=lambda: next(ticks))
    assert "16 of 32 prompts were used in the time there was" in found.notes


@pytest.mark.slow
def test_prompts_that_do_not_fit_are_left_out_and_counted() -> None:
    chosen = Chosen([Prompt("chat", tuple(range(2, 2 + n)), 24) for n in (20, 30, 500)], "ids")
    with small_engine() as one, small_engine() as other:
        found = fidelity(Engines(one, other), chosen, PLAN, QUICK)
    assert found.notes == ("1 of 3 prompts do not fit the context: left out",)


def test_where_prompts_come_from_is_in_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt_token_ids": [2, 3, 4], "max_tokens": 8}\n' * 4)
    with small_engine() as one, small_engine() as other:
        found = fidelity(Engines(one, other), of_file(path, 9), PLAN, QUICK)
    assert found.prompts == "those of p.jsonl"
    assert any("prompts were token ids" in note for note in found.notes)
    assert own(8, 0).says == "texts of our own, in four tasks"


def test_what_is_no_address_is_asked_wrongly(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="not an HTTP address"):
        judged(f"file://{tmp_path}", "http://127.0.0.1:1")


def in_turn(engine: Engine, hot: float, lost: bool = False, prompts: int = 16) -> Fidelity:
    """One engine as both arms: the candidate's turn sets another temperature."""

    def turn(temperature: float) -> Turn:
        def still() -> None:
            if lost and temperature != 1.0:
                raise Failed("its time was up")

        return Turn(lambda: setattr(engine.fault, "temperature", temperature), still)

    url = f"http://127.0.0.1:{engine.server_port}"
    engines = Engines(url, url, turns={"reference": turn(1.0), "candidate": turn(hot)})
    return fidelity(engines, short(prompts), PLAN, QUICK)


@pytest.mark.slow
def test_an_engine_that_is_both_arms_is_judged_in_turn() -> None:
    with engine_of() as engine:
        found = in_turn(engine, 1.5)
    assert (found.word, found.forced is not None and found.forced.kl_nats) == ("different", 0.0), found.reason
    assert "surprise -" in found.reason and ONE_ENGINE in found.notes
    assert {salt for salt in engine.salts if salt} == {"reference", "candidate"}


def test_an_engine_that_is_both_arms_is_not_different_from_itself() -> None:
    with engine_of() as engine:
        assert in_turn(engine, 1.00001, prompts=8).word in ("same", "inconclusive")


def test_answers_of_a_turn_that_ended_too_early_are_no_candidates_answers() -> None:
    with engine_of() as engine:
        found = in_turn(engine, 1.5, lost=True)
    assert (found.word, "its time was up" in found.reason) == ("failed", True)
