"""What holds for every rule, checked once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pellucid.catalog.load import knobs, metrics
from pellucid.core.units import unit_of
from pellucid.diagnose.cases import case_evidence, run_case
from pellucid.diagnose.evidence import WHOLE
from pellucid.diagnose.registry import all_rules, rule_files
from pellucid.diagnose.rule import Case, Rule, Verdict
from pellucid.diagnose.run import diagnose
from pellucid.store.read import open_run
from pellucid.store.schema import TABLES

RULES = all_rules()
IDS = [r.id for r in RULES]
every_rule = pytest.mark.parametrize("rule", RULES, ids=IDS)
CASES = [(r, c) for r in RULES for c in r.cases]
every_case = pytest.mark.parametrize(("rule", "case"), CASES, ids=[f"{r.id}: {c.name}" for r, c in CASES])
FILES = {f"{p.parent.name}.{p.stem}": p for p in rule_files()}


@cache
def judged(rule_id: str, name: str) -> Verdict:
    """Once for all tests: a store is made of a case's tables each time."""
    return next(run_case(rule, case) for rule, case in CASES if (rule.id, case.name) == (rule_id, name))


@every_case
def test_a_case_gives_its_outcome_and_its_words(rule: Rule, case: Case) -> None:
    verdict = judged(rule.id, case.name)
    assert verdict.kind == case.kind, verdict.says
    assert case.says in verdict.says


@pytest.mark.slow
@every_case
def test_a_case_gives_the_same_answer_twice(rule: Rule, case: Case) -> None:
    assert run_case(rule, case) == run_case(rule, case)


@every_rule
def test_the_id_is_the_path(rule: Rule) -> None:
    assert rule.id in FILES


def test_every_file_is_a_rule() -> None:
    assert sorted(FILES) == IDS


@every_rule
def test_the_question_is_a_question(rule: Rule) -> None:
    assert rule.question.endswith("?")


@every_rule
def test_the_docstring_has_its_three_headings(rule: Rule) -> None:
    text = FILES[rule.id].read_text()
    assert all(f"\n{heading}\n    " in text for heading in ("Looks like", "Why it costs", "Not this when"))


@every_rule
def test_there_is_a_found_a_near_miss_and_a_blind_case(rule: Rule) -> None:
    assert {"found", "clear", "blind"} <= {c.kind for c in rule.cases}


@every_rule
def test_the_rule_is_short(rule: Rule) -> None:
    assert len(FILES[rule.id].read_text().splitlines()) <= 120


@every_rule
def test_needs_are_in_the_schema_and_say_how_to_collect_them(rule: Rule) -> None:
    for need in rule.needs:
        assert {*need.columns, *need.optional} <= set(TABLES[need.table].names())
        assert need.collect


@every_rule
def test_evidence_columns_carry_a_unit(rule: Rule) -> None:
    case = next(c for c in rule.cases if c.kind == "found")
    row = case_evidence(rule, case).row(rule, WHOLE)
    assert [c for c, value in row.items() if not unit_of(c) and not isinstance(value, str)] == []


@every_rule
def test_limits_say_why(rule: Rule) -> None:
    assert rule.limits
    assert all(len(limit.because) > 20 for limit in rule.limits)


@every_rule
def test_every_limit_of_the_file_is_declared(rule: Rule) -> None:
    assert FILES[rule.id].read_text().count(" = Limit(") == len(rule.limits)


@every_rule
def test_gains_and_moves_are_in_the_catalog(rule: Rule) -> None:
    moves = {m.knob for m in rule.moves}
    assert moves <= set(knobs())
    for case in (c for c in rule.cases if c.kind == "found"):
        verdict = judged(rule.id, case.name)
        assert verdict.gain is not None
        assert verdict.gain.metric in metrics()
        assert 0 <= verdict.gain.low_ratio <= verdict.gain.high_ratio
        assert set(verdict.targets) <= moves


@every_rule
def test_a_finding_has_a_move_with_a_value_in_the_knobs_range(rule: Rule) -> None:
    for case in (c for c in rule.cases if c.kind == "found"):
        targets = judged(rule.id, case.name).targets
        assert targets or not rule.moves     # what to do may lie outside of the engine
        assert all(knobs()[k].low <= v <= knobs()[k].high for k, v in targets.items())


@every_rule
def test_explained_by_names_rules_and_has_no_cycle(rule: Rule) -> None:
    by_id = {r.id: r for r in RULES}
    path, ahead = [rule.id], list(rule.explained_by)
    while ahead:
        name = ahead.pop()
        assert name in by_id
        assert name != rule.id, path
        path.append(name)
        ahead.extend(by_id[name].explained_by)


@every_rule
def test_falsified_by_is_said(rule: Rule) -> None:
    assert len(rule.falsified_by) > 20


def test_an_empty_store_is_blind_never_clear(tmp_path: Path) -> None:
    report = diagnose(open_run(tmp_path))
    assert [r.verdict.kind for r in report.results] == ["blind"] * len(RULES)
    assert all(r.verdict.collect for r in report.results)
