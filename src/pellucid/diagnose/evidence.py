"""What a rule may see: its declared columns, nothing else, of the whole span or of one window.

Rows are copied once, with the columns any rule needs, into a database of their own; per rule and window they
are shown through two views: `steps` has the rows of the window, `span_steps` those of the whole span, for what does
not change from window to window (what a step costs). What a rule did not declare does not exist there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import duckdb
import pyarrow as pa

from pellucid.diagnose.rule import Need, Row, Rule
from pellucid.store.read import RunReader, view_sql
from pellucid.store.schema import TABLES

# When a row of a table happened: what places it in a window. A copy has it as the column `_moment_ns`. What a log says
# of the engine's start holds ever after.
MOMENT = {
    "steps": "start_ns", "requests": "coalesce(queued_ns, arrival_ns, finish_ns)", "prefix_lookups": "time_ns",
    "kv_residency": "cached_ns", "experts": "start_ns", "sources": "start_ns", "metrics": "end_ns",
    "speculation": "start_ns", "captures": "coalesce(end_ns, 0)", "capture_steps": "start_ns",
    "kernels": "coalesce(start_ns, 0)", "log_events": str(2**62),
}  # fmt: skip
# The newest moment of a run: its last step, or its last metrics page or kernel where it has no step.
LAST = """SELECT coalesce((SELECT max(end_ns) FROM steps), (SELECT max(end_ns) FROM metrics),
                          (SELECT max(end_ns) FROM captures)) AS last_ns"""
# Seen by some process, and given up by none: of what was shed, rows that are not there tell nothing.
VISIBLE = """SELECT fact FROM facts GROUP BY fact
             HAVING bool_or(state = 'visible') AND NOT coalesce(bool_or(reason LIKE 'shed%'), false)"""
_HOMES = count()       # a name for each database: one run may be judged more than once


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a span, [start, end). The first has no start and the last no end, so that no row is lost."""

    start_ns: int | None
    end_ns: int | None

    def where(self) -> str:
        """As a SQL condition."""
        parts = [f"_moment_ns >= {self.start_ns}"] if self.start_ns is not None else []
        parts += [f"_moment_ns < {self.end_ns}"] if self.end_ns is not None else []
        return " AND ".join(parts) or "true"


WHOLE = Window(None, None)


@dataclass(slots=True, weakref_slot=True)
class Evidence:
    db: duckdb.DuckDBPyConnection
    columns: dict[str, list[str]]                                       # what was copied, by table
    visible: frozenset[str] = frozenset()                               # facts that some process saw, to the end
    _seen: dict[tuple[str, Window], dict[str, int]] = field(default_factory=dict)

    def row(self, rule: Rule, window: Window) -> Row:
        """The rule's evidence row. Raises duckdb.Error when the query reads what was not declared."""
        for need in rule.needs:
            source = f"SELECT {', '.join((*need.columns, *need.optional)) or 'NULL'} FROM _all_{need.table}"
            self.db.execute(f"CREATE OR REPLACE VIEW span_{need.table} AS {source}")
            self.db.execute(f"CREATE OR REPLACE VIEW {need.table} AS {source} WHERE {window.where()}")
        try:
            for view in rule.views:
                self.db.execute(view_sql(view))
            found = self.rows(rule.evidence)
        finally:
            for view in reversed(rule.views):
                self.db.execute(f"DROP VIEW IF EXISTS {view}")
            for need in rule.needs:
                self.db.execute(f"DROP VIEW IF EXISTS {need.table}; DROP VIEW IF EXISTS span_{need.table}")
        if len(found) != 1:
            raise ValueError(f"the evidence query of {rule.id} gave {len(found)} rows, not one")
        return found[0]

    def rows(self, sql: str) -> list[Row]:
        cursor = self.db.execute(sql)
        names = [d[0] for d in cursor.description or ()]
        return [Row(zip(names, values, strict=True)) for values in cursor.fetchall()]

    def seen(self, table: str, window: Window) -> dict[str, int]:
        """How many rows (`*`), and how many values that are not null in each column."""
        key = (table, window)
        if key not in self._seen:
            names = ["*", *self.columns[table]]
            counts = ", ".join(f"count({n})" for n in names)
            values = self.db.execute(f"SELECT {counts} FROM _all_{table} WHERE {window.where()}").fetchone()
            self._seen[key] = dict(zip(names, values or (), strict=True))
        return self._seen[key]


def gather(run: RunReader, needs: Iterable[Need], since_ns: int | None) -> Evidence:
    """Copies what is needed. Counts are stored in 32 bits: a step's fit, and half the bytes are half the time."""
    home = f"evidence_{next(_HOMES)}"
    run.db.execute(f"ATTACH ':memory:' AS {home}")
    wanted = needed(needs)
    last_ns = None if since_ns is None else run.one(LAST)["last_ns"]
    for table, columns in wanted.items():
        copied = ", ".join(f"{c}::INTEGER AS {c}" if c in _small(table) else c for c in columns)
        where = f" WHERE {MOMENT[table]} > {last_ns - since_ns}" if since_ns is not None and last_ns is not None else ""
        _copy(run, f"{home}._all_{table}", f"SELECT {copied}, {MOMENT[table]} AS _moment_ns FROM {table}{where}")
    db = run.db.cursor()
    db.execute(f"USE {home}")
    visible = frozenset(r["fact"] for r in run.rows(VISIBLE))
    return Evidence(db, wanted, visible)


def expose(tables: dict[str, pa.Table]) -> Evidence:
    """Arrow tables → evidence without a run, for cases."""
    home = f"evidence_{next(_HOMES)}"
    _cases_db().execute(f"ATTACH ':memory:' AS {home}")
    db = _cases_db().cursor()
    db.execute(f"USE {home}")
    for table, rows in tables.items():
        db.register("_incoming", rows)
        db.execute(f"CREATE TABLE _all_{table} AS SELECT *, 0 AS _moment_ns FROM _incoming")
        db.unregister("_incoming")
    found = Evidence(db, {name: rows.column_names for name, rows in tables.items()})
    weakref.finalize(found, _let_go, db, home)
    return found


@cache
def _cases_db() -> duckdb.DuckDBPyConnection:
    """One for all cases: to open a database takes 14 ms, to attach one to it 4 (2 cores of an AMD EPYC)."""
    return duckdb.connect(":memory:", config={"threads": 1})


def _let_go(db: duckdb.DuckDBPyConnection, home: str) -> None:
    db.close()
    _cases_db().execute(f"DETACH {home}")


def needed(needs: Iterable[Need]) -> dict[str, list[str]]:
    """Table → every column that is needed."""
    columns: dict[str, list[str]] = {}
    for need in needs:
        known = columns.setdefault(need.table, [])
        known.extend(c for c in (*need.columns, *need.optional) if c not in known)
    return columns


def _small(table: str) -> set[str]:
    return {c.name for c in TABLES[table].columns if c.name.endswith(("_count", "_tokens"))}


def _copy(run: RunReader, target: str, sql: str) -> None:
    """A damaged segment is left out (and reported by the reader) as it is for any other query."""
    try:
        run.db.execute(f"CREATE TABLE {target} AS {sql}")
    except duckdb.Error:  # of which class depends on what the damage looks like to the decoder
        run.rows(f"SELECT bit_xor(hash(t)) AS all_values FROM ({sql}) t")  # so that the reader meets the fault
        run.db.execute(f"CREATE TABLE {target} AS {sql}")
