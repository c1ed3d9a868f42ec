"""Every comparison and every limit of every rule, changed one at a time: a case or a limit test must notice.

Mutated are comparisons in Python, comparisons in the evidence SQL, and the values of limits (a fifth up and down).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from pellucid.diagnose.cases import case_evidence
from pellucid.diagnose.evidence import WHOLE, Evidence
from pellucid.diagnose.registry import all_rules, rule_files
from pellucid.diagnose.rule import Row, Rule
from pellucid.diagnose.run import judge_once
from tests.diagnose import test_limits

pytestmark = pytest.mark.slow

OPERATORS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
SQL_OPERATORS = {">=": (">", "<"), "<=": ("<", ">"), ">": (">=", "<="), "<": ("<=", ">="), "=": ("<>",), "<>": ("=",)}
SQL = re.compile(r"\b(SELECT|FROM|AND)\b")
SQL_COMPARISON = re.compile(r"<=|>=|<>|[<>=]")


@pytest.mark.parametrize("path", rule_files(), ids=lambda p: p.stem)
def test_no_changed_comparison_or_limit_survives(path: Path) -> None:
    mutants = list(mutants_of(ast.parse(path.read_text())))
    assert len(mutants) >= 6
    assert [name for name, tree in mutants if not noticed(tree, path)] == []


def test_the_unchanged_rules_pass() -> None:
    assert [p.stem for p in rule_files() if noticed(ast.parse(p.read_text()), p)] == []


def mutants_of(tree: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Compare):
            for new in OPERATORS[type(node.ops[0])]:
                yield f"line {node.lineno}: {new.__name__}", _changed(tree, number, "ops", [new()])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Limit":
            for factor in (0.8, 1.25):
                value = ast.BinOp(node.args[0], ast.Mult(), ast.Constant(factor))
                yield f"line {node.lineno}: limit x {factor}", _changed(tree, number, "args", [value, *node.args[1:]])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value):
            for text in _changed_sql(node.value):
                yield f"line {node.lineno}: SQL {text.strip()[:60]}", _changed(tree, number, "value", text)


def _changed(tree: ast.Module, number: int, name: str, value: object) -> ast.Module:
    copy = deepcopy(tree)
    setattr(list(ast.walk(copy))[number], name, value)
    return ast.fix_missing_locations(copy)


def _changed_sql(sql: str) -> Iterator[str]:
    for match in SQL_COMPARISON.finditer(sql):
        for new in SQL_OPERATORS[match.group()]:
            yield sql[: match.start()] + new + sql[match.end() :]


def noticed(tree: ast.Module, path: Path) -> bool:
    """True when a limit test or a case fails with this rule in place of the real one."""
    names: dict[str, object] = {"__name__": "mutant"}
    exec(compile(tree, str(path), "exec"), names)
    rule = names["RULE"]
    assert isinstance(rule, Rule)
    return _limit_test_fails(rule) or any(_case_fails(rule, n) for n in range(len(rule.cases)))


def _limit_test_fails(rule: Rule) -> bool:
    real = test_limits.RULES[rule.id]
    test_limits.RULES[rule.id] = rule
    try:
        for name, change, kind in test_limits.ON_THE_LIMIT:
            if name == rule.id and test_limits.judged(name, **change).kind != kind:
                return True
        for name, test in inspect.getmembers(test_limits, inspect.isfunction):
            if name.startswith("test_") and not inspect.signature(test).parameters:
                test()
    except Exception:  # whatever a mutant does that the rule does not is noticed
        return True
    finally:
        test_limits.RULES[rule.id] = real
    return False


def _case_fails(rule: Rule, number: int) -> bool:
    case = rule.cases[number]
    verdict = judge_once(rule, _tables(rule.id, number), WHOLE, {}, min_rows=1)[1]
    return verdict.kind != case.kind or case.says not in verdict.says


@cache
def _tables(rule_id: str, number: int) -> Evidence:
    """A case's rows, made once: mutants differ in how they read them."""
    real = next(r for r in all_rules() if r.id == rule_id)
    return case_evidence(real, real.cases[number])


def test_sql_comparisons_are_seen() -> None:
    assert list(_changed_sql("a >= 1 AND b = 2")) == ["a > 1 AND b = 2", "a < 1 AND b = 2", "a >= 1 AND b <> 2"]


def test_a_row_refuses_a_null_it_was_asked_to_be_a_number() -> None:
    with pytest.raises(ValueError, match="is null"):
        Row({"a": None}).number("a")
