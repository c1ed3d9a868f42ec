"""What a rule may see: its declared columns, nothing else, of the whole span or of one window.

Rows are copied once, with the columns any rule needs, into a database of their own; per rule and window they
are shown through two views: `steps` has the rows of the window, `span_steps` those of the whole span, for what does
not change from window to window (what a step costs). What a rule did not declare does not exist there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import duckdb
import pyarrow as pa

from pellucid.diagnose.rule import Need, Row, Rule
from pellucid.diagnose.span import Span
from pellucid.store.read import RunReader
from pellucid.store.schema import TABLES

# When a row of a table happened: what places it in a window.
MOMENT = {"steps": "start_ns", "requests": "coalesce(queued_ns, arrival_ns, finish_ns)"}


_HOMES = count()       # a name for each database: one run may be judged more than once


@dataclass(slots=True)
class Evidence:
    """`seen[table][window][column]` counts values that are not null; window None is the whole span."""

    db: duckdb.DuckDBPyConnection
    seen: dict[str, dict[int | None, dict[str, int]]]

    def row(self, rule: Rule, window: int | None) -> Row:
        """The rule's evidence row. Raises duckdb.Error when the query reads what was not declared."""
        for need in rule.needs:
            columns = ", ".join((*need.columns, *need.optional))
            where = "" if window is None else f" WHERE _window = {window}"
            source = f"SELECT {columns or 'NULL'} FROM _all_{need.table}"
            self.db.execute(f"CREATE OR REPLACE VIEW span_{need.table} AS {source}")
            self.db.execute(f"CREATE OR REPLACE VIEW {need.table} AS {source}{where}")
        try:
            cursor = self.db.execute(rule.evidence)
            names = [d[0] for d in cursor.description or ()]
            found = cursor.fetchall()
        finally:
            for need in rule.needs:
                self.db.execute(f"DROP VIEW IF EXISTS {need.table}; DROP VIEW IF EXISTS span_{need.table}")
        if len(found) != 1:
            raise ValueError(f"the evidence query of {rule.id} gave {len(found)} rows, not one")
        return Row(zip(names, found[0], strict=True))

    def rows_count(self, table: str, window: int | None) -> int:
        return self.seen[table].get(window, {}).get("*", 0)

    def values_count(self, table: str, column: str, window: int | None) -> int:
        return self.seen[table].get(window, {}).get(column, 0)


def gather(run: RunReader, rules: Iterable[Rule], span: Span) -> Evidence:
    """Copies what the rules need. Counts are stored in 32 bits: a step's fit, and half the bytes are half the time."""
    home = f"evidence_{next(_HOMES)}"
    run.db.execute(f"ATTACH ':memory:' AS {home}")
    wanted = needed(rules)
    for table, columns in wanted.items():
        moment = MOMENT[table]
        ends = [w.end_ns for w in span.windows[:-1]]
        window = " ".join(f"WHEN {moment} < {end} THEN {n}" for n, end in enumerate(ends))
        window = f"CASE {window} ELSE {len(ends)} END" if ends else "0"
        copied = ", ".join(f"{c}::INTEGER AS {c}" if c in _small(table) else c for c in columns)
        _copy(run, f"{home}._all_{table}", f"SELECT {copied}, {window} AS _window FROM {table} "
              f"WHERE {moment} >= {span.start_ns} AND {moment} < {span.end_ns}")  # fmt: skip
    db = run.db.cursor()
    db.execute(f"USE {home}")
    return Evidence(db, {table: _counts(db, table, columns) for table, columns in wanted.items()})


def _small(table: str) -> set[str]:
    return {c.name for c in TABLES[table].columns if c.name.endswith(("_count", "_tokens"))}


def _copy(run: RunReader, target: str, sql: str) -> None:
    """A damaged segment is left out (and reported by the reader) as it is for any other query."""
    try:
        run.db.execute(f"CREATE TABLE {target} AS {sql}")
    except (duckdb.IOException, duckdb.InvalidInputException):
        run.rows(f"SELECT bit_xor(hash(t)) AS all_values FROM ({sql}) t")  # so that the reader meets the fault
        run.db.execute(f"CREATE TABLE {target} AS {sql}")


def expose(tables: dict[str, pa.Table]) -> Evidence:
    """Arrow tables with a `_window` column → evidence, without a run: for cases."""
    db = duckdb.connect(":memory:", config={"threads": 2})
    seen: dict[str, dict[int | None, dict[str, int]]] = {}
    for table, rows in tables.items():
        db.register("_incoming", rows)
        db.execute(f"CREATE TABLE _all_{table} AS SELECT * FROM _incoming")
        db.unregister("_incoming")
        seen[table] = _counts(db, table, [c for c in rows.column_names if c != "_window"])
    return Evidence(db, seen)


def needed(rules: Iterable[Rule]) -> dict[str, list[str]]:
    """Table → every column some rule needs."""
    columns: dict[str, list[str]] = {}
    for need in (n for rule in rules for n in rule.needs):
        known = columns.setdefault(need.table, [])
        known.extend(c for c in (*need.columns, *need.optional) if c not in known)
    return columns


def missing(evidence: Evidence, need: Need, window: int | None) -> list[str]:
    """Declared columns that are null in every row there is."""
    return [c for c in need.columns if not evidence.values_count(need.table, c, window)]


def _counts(db: duckdb.DuckDBPyConnection, table: str, columns: list[str]) -> dict[int | None, dict[str, int]]:
    counts = ", ".join(f"count({c})" for c in columns)
    rows = db.execute(f"SELECT _window, count(*), {counts} FROM _all_{table} GROUP BY _window").fetchall()
    seen: dict[int | None, dict[str, int]] = {None: dict.fromkeys(("*", *columns), 0)}
    for window, *values in rows:
        seen[window] = dict(zip(("*", *columns), values, strict=True))
        for name, value in seen[window].items():
            seen[None][name] += value
    return seen
