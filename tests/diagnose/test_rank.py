from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pellucid.diagnose.rank import rank
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Gain, clear, found
from pellucid.diagnose.run import Result

RULES = {r.id: r for r in all_rules()}


def result(
    rule: str, low: float, high: float, explained_by: tuple[str, ...] = (),
    scope: Literal["local", "end_to_end"] = "end_to_end",
) -> Result:
    verdict = found("x", Gain("itl_p99_ns", low, high, scope), {})
    return Result(replace(RULES[rule], explained_by=explained_by), verdict)


CAP, STALL, STORM = "queue.sequence_cap_binding", "batch.prefill_stalling_decode", "kv.preemption_storm"


def test_findings_are_ordered_by_the_middle_of_their_gain() -> None:
    ranked = rank([result(CAP, 0.0, 0.5), result(STORM, 0.2, 0.4), result(STALL, 0.0, 0.1)])
    assert [r.result.rule.id for r in ranked] == [STORM, CAP, STALL]


def test_what_no_request_feels_comes_last_however_much_it_is() -> None:
    ranked = rank([result(CAP, 0.8, 0.9, scope="local"), result(STORM, 0.0, 0.1), result(STALL, 0.2, 0.3)])
    assert [r.result.rule.id for r in ranked] == [STALL, STORM, CAP]


def test_equal_gains_are_in_the_order_of_their_names() -> None:
    assert [r.result.rule.id for r in rank([result(CAP, 0, 0.1), result(STALL, 0, 0.1)])] == [STALL, CAP]


def test_a_symptom_is_folded_under_its_cause_even_when_its_gain_is_larger() -> None:
    ranked = rank([result(STORM, 0.0, 0.1), result(STALL, 0.5, 0.9, (STORM,))])
    assert [(r.result.rule.id, [s.rule.id for s in r.symptoms]) for r in ranked] == [(STORM, [STALL])]


def test_a_chain_of_causes_folds_under_its_root() -> None:
    ranked = rank([result(STORM, 0, 0.1), result(STALL, 0, 0.2, (STORM,)), result(CAP, 0, 0.3, (STALL,))])
    assert [(r.result.rule.id, [s.rule.id for s in r.symptoms]) for r in ranked] == [(STORM, [STALL, CAP])]


def test_a_symptom_whose_cause_was_not_found_stands_alone() -> None:
    cause = Result(RULES[STORM], clear("fine"))
    assert [r.result.rule.id for r in rank([cause, result(STALL, 0, 0.1, (STORM,))])] == [STALL]
