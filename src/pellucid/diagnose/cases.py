"""A rule's literal cases, run: the unit test, the doc example, and a check on a user's machine.

    run_case(RULE, RULE.cases[0]).kind == "found"
"""

from __future__ import annotations

import pyarrow as pa

from pellucid.core.table import rows
from pellucid.diagnose.evidence import WHOLE, Evidence, expose, needed
from pellucid.diagnose.rule import Case, Rule, Verdict
from pellucid.diagnose.run import judge_once
from pellucid.store.schema import TABLES


def run_case(rule: Rule, case: Case) -> Verdict:
    return judge_once(rule, case_evidence(rule, case), WHOLE, {}, min_rows=1)[1]


def case_evidence(rule: Rule, case: Case) -> Evidence:
    """Literal tables → evidence. A column the case leaves out is null; one the rule does not need is refused."""
    tables = {}
    for table, columns in needed(rule.needs).items():
        literal = rows(case.tables[table]) if table in case.tables else []
        strange = {c for r in literal for c in r} - {*columns, "repeat"}
        if strange:
            raise ValueError(f"case {case.name!r} of {rule.id}: {table} has {sorted(strange)}, which the rule does not need")  # noqa: E501
        full = [r for r in literal for _ in range(int(r.get("repeat") or 1))]
        kinds = {c.name: c.type for c in TABLES[table].columns}
        data = {c: pa.array([_cell(r.get(c), kinds[c]) for r in full], kinds[c]) for c in columns}
        tables[table] = pa.table(data)
    return expose(tables)


def _cell(value: object, kind: pa.DataType) -> object:
    """Literals may write 75e6 in an integer column, and 429 in one of text."""
    if pa.types.is_string(kind) and value is not None:
        return str(value)
    return int(value) if isinstance(value, float) and pa.types.is_integer(kind) else value
