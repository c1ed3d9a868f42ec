"""Reading a run with DuckDB. Any number of readers, no lock, also while it is being recorded.

    run = open_run(folder)
    run.rows("SELECT step, scheduled_tokens FROM steps WHERE step < $n", {"n": 10})

Every table of the schema is there, empty if nothing was recorded; so are the views of `store/views`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from pellucid.store.schema import TABLES, Table
from pellucid.store.segment import Damaged, body_fault, conform, find, read_tail

VIEWS = Path(__file__).parent / "views"


@dataclass(slots=True)
class RunReader:
    folder: Path
    db: duckdb.DuckDBPyConnection
    damaged: list[Damaged] = field(default_factory=list)

    def rows(self, sql: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Runs one query; each row is a dict. A segment that turns out damaged is left out and reported."""
        try:
            return self._rows(sql, params)
        except (duckdb.IOException, duckdb.InvalidInputException):
            if not self._drop_damaged():
                raise
            return self._rows(sql, params)

    def one(self, sql: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The only row of a query that returns exactly one."""
        found = self.rows(sql, params)
        if len(found) != 1:
            raise ValueError(f"expected one row, got {len(found)}: {sql.strip()[:80]}")
        return found[0]

    def _rows(self, sql: str, params: dict[str, Any] | None) -> list[dict[str, Any]]:
        cursor = self.db.execute(sql, params or {})
        names = [d[0] for d in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _drop_damaged(self) -> bool:
        known = {d.path for d in self.damaged}
        fresh = [
            Damaged(path, reason)
            for table in TABLES.values()
            for path in find(self.folder, table).segments
            if path not in known and (reason := body_fault(path))
        ]
        self.damaged.extend(fresh)
        if fresh:
            _attach(self)
        return bool(fresh)


def open_run(folder: Path) -> RunReader:
    reader = RunReader(folder, duckdb.connect(":memory:", config={"threads": 2}))
    _attach(reader)
    for path in sorted(VIEWS.glob("*/*.sql")):
        reader.db.execute(path.read_text())
    return reader


def _attach(reader: RunReader) -> None:
    bad = {d.path for d in reader.damaged}
    for table in TABLES.values():
        files = find(reader.folder, table)
        reader.damaged.extend(d for d in files.damaged if d.path not in bad)
        segments = [p for p in files.segments if p not in bad]
        _view(reader, table, segments, files.tails)


def _view(reader: RunReader, table: Table, segments: list[Path], tails: list[Path]) -> None:
    schema = table.arrow()
    parts = []
    if segments:
        names = ", ".join("'" + str(p).replace("'", "''") + "'" for p in segments)
        source = f"read_parquet([{names}], union_by_name = true)"
        have = {r[0] for r in reader.db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        columns = ", ".join(n if n in have else f"NULL AS {n}" for n in table.names())
        parts.append(f"SELECT {columns} FROM {source}")
    for path in tails:
        rows, fault = read_tail(path, schema)
        if fault and not rows.num_rows and path.stat().st_size:
            reader.damaged.append(Damaged(path, fault))
        name = f"_{path.stem.replace('-', '_')}"
        reader.db.register(name, rows)
        parts.append(f"SELECT * FROM {name}")
    if not parts:
        reader.db.register(f"_{table.name}_empty", conform(schema.empty_table(), schema))
        parts.append(f"SELECT * FROM _{table.name}_empty")
    types = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}
    cast = ", ".join(f"{f.name}::{types[str(f.type)]} AS {f.name}" for f in schema)
    reader.db.execute(f"CREATE OR REPLACE VIEW {table.name} AS SELECT {cast} FROM ({' UNION ALL BY NAME '.join(parts)})")
