"""Reading a run with DuckDB. Any number of readers, no lock, also while it is being recorded.

    run = open_run(folder)
    run.rows("SELECT step, scheduled_tokens FROM steps WHERE step < $n", {"n": 10})

Every table of the schema is there, empty if nothing was recorded; so are the views of `store/views`.

A segment whose checksum does not fit is left out and reported in `damaged`, as is one that retention deleted under us.
`step_runs` is most of a run, so its segments are checked when a query first asks for them; the others at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from pellucid.store.schema import TABLES, Table
from pellucid.store.segment import Damaged, body_fault, checksums, conform, file_checksum, find, read_tail

VIEWS = Path(__file__).parent / "views"
LAZY = "step_runs"
GONE = "retention deleted it after this reader opened the run (PELLUCID_RETAIN_S, PELLUCID_RETAIN_BYTES)"
CHANGED = "its checksum is not the one noted when it was sealed"
ATTEMPTS = 5                              # a recorder may seal and expire while we look
_ASKED_WRONGLY = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)
_sound: set[tuple[str, int, int]] = set()   # path, size, mtime of segments checked by this process: they never change


@dataclass(slots=True)
class RunReader:
    folder: Path
    db: duckdb.DuckDBPyConnection
    damaged: list[Damaged] = field(default_factory=list)
    _read: dict[str, list[Path]] = field(default_factory=dict)   # table → segments its view reads
    _lazy_checked: bool = False

    def rows(self, sql: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Runs one query; each row is a dict. A segment that turns out damaged is left out and reported."""
        if not self._lazy_checked and any(name in sql for name in _lazy_names()):
            self._lazy_checked = True
            _attach(self)
        try:
            return self._rows(sql, params)
        except _ASKED_WRONGLY:
            raise
        except duckdb.Error:
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
        fresh = []
        for path in (p for paths in self._read.values() for p in paths):
            reason = body_fault(path) if path.exists() else GONE
            if reason:
                fresh.append(Damaged(path, reason))
        self.damaged.extend(fresh)
        if fresh:
            _attach(self)
        return bool(fresh)


def view_sql(name: str) -> str:
    """The statement that makes a view of `store/views`."""
    (path,) = VIEWS.glob(f"*/{name}.sql")
    return path.read_text()


def open_run(folder: Path) -> RunReader:
    reader = RunReader(folder, duckdb.connect(":memory:", config={"threads": 2}))
    _attach(reader)
    for path in sorted(VIEWS.glob("*/*.sql")):
        reader.db.execute(path.read_text())
    return reader


def _attach(reader: RunReader) -> None:
    noted = checksums(reader.folder)
    for table in TABLES.values():
        for attempt in range(ATTEMPTS):
            try:
                _attach_table(reader, table, noted, one_by_one=attempt > 0)
                break
            except (duckdb.Error, FileNotFoundError):
                if attempt == ATTEMPTS - 1:
                    raise


def _attach_table(reader: RunReader, table: Table, noted: dict[str, int], one_by_one: bool) -> None:
    """Raises FileNotFoundError or duckdb.Error when a file went meanwhile or its footer is refused; `one_by_one` finds
    out which."""
    files = find(reader.folder, table)
    if table.name != LAZY or reader._lazy_checked:
        files.damaged += [Damaged(p, CHANGED) for p in files.segments if not _is_sound(p, noted.get(p.name))]
    if one_by_one:
        files.damaged += [Damaged(p, fault) for p in files.segments if (fault := _refused(reader, p))]
    bad = {d.path for d in reader.damaged}
    fresh = {d.path: d for d in files.damaged if d.path not in bad}
    reader.damaged.extend(fresh.values())
    segments = [p for p in files.segments if p not in bad and p not in fresh]
    _view(reader, table, segments, files.tails)
    reader._read[table.name] = segments


def _refused(reader: RunReader, path: Path) -> str:
    try:
        reader.db.execute(f"DESCRIBE SELECT * FROM {_source([path])}")
    except duckdb.Error as error:
        return str(error).splitlines()[0] if path.exists() else GONE
    return ""


def _source(paths: list[Path]) -> str:
    names = ", ".join("'" + str(p).replace("'", "''") + "'" for p in paths)
    return f"read_parquet([{names}], union_by_name = true)"


@cache
def _lazy_names() -> frozenset[str]:
    """The table that is checked late, and every view that reads it, through others too."""
    names, texts = {LAZY}, {p.stem: p.read_text() for p in VIEWS.glob("*/*.sql")}
    while more := {v for v, text in texts.items() if v not in names and any(n in text for n in names)}:
        names |= more
    return frozenset(names)


def _is_sound(path: Path, noted: int | None) -> bool:
    if noted is None:
        return True
    stat = path.stat()
    key = (str(path), stat.st_size, stat.st_mtime_ns)
    if key not in _sound:
        if file_checksum(path) != noted:
            return False
        _sound.add(key)
    return True


def _view(reader: RunReader, table: Table, segments: list[Path], tails: list[Path]) -> None:
    schema = table.arrow()
    parts = []
    if segments:
        source = _source(segments)
        have = {r[0] for r in reader.db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        columns = ", ".join(n if n in have else f"NULL AS {n}" for n in table.names())
        parts.append(f"SELECT {columns} FROM {source}")
    for path in tails:
        rows, fault = read_tail(path, schema)
        size_bytes = path.stat().st_size     # FileNotFoundError: it was sealed meanwhile
        if fault and not rows.num_rows and size_bytes and path not in {d.path for d in reader.damaged}:
            reader.damaged.append(Damaged(path, fault))
        name = f"_{path.stem.replace('-', '_')}"
        reader.db.register(name, rows)
        parts.append(f"SELECT * FROM {name}")
    if not parts:
        reader.db.register(f"_{table.name}_empty", conform(schema.empty_table(), schema))
        parts.append(f"SELECT * FROM _{table.name}_empty")
    types = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}
    cast = ", ".join(f"{f.name}::{types[str(f.type)]} AS {f.name}" for f in schema)
    source = " UNION ALL BY NAME ".join(parts)
    reader.db.execute(f"CREATE OR REPLACE VIEW {table.name} AS SELECT {cast} FROM ({source})")
