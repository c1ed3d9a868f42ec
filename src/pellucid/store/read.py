"""Reading a run with DuckDB. Any number of readers, no lock, also while it is being recorded.

    run = open_run(folder)
    run.rows("SELECT step, scheduled_tokens FROM steps WHERE step < $n", {"n": 10})

Every table of the schema is there, empty if nothing was recorded; so are the views of `store/views`, each made when a
query first names it: to make all of them takes longer than most queries.

A segment whose checksum does not fit is left out and reported in `damaged`, as is one that retention deleted under us.
`step_runs` is most of a run, so its segments are checked when a query first asks for them; the others at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from pellucid.store.schema import TABLES, Table
from pellucid.store.segment import Damaged, body_fault, checksums, file_checksum, find, read_tail

VIEWS = Path(__file__).parent / "views"
LAZY = "step_runs"
GONE = "retention deleted it after this reader opened the run (PELLUCID_RETAIN_S, PELLUCID_RETAIN_BYTES)"
CHANGED = "its checksum is not the one noted when it was sealed"
ATTEMPTS = 5                              # a recorder may seal and expire while we look
_WORD = re.compile(r"[a-z_]+")
_HEADER = re.compile(r"^--.*\n", re.MULTILINE)
_ASKED_WRONGLY = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)
_sound: set[tuple[str, int, int]] = set()   # path, size, mtime of segments checked by this process: they never change


@dataclass(slots=True)
class RunReader:
    folder: Path
    db: duckdb.DuckDBPyConnection
    damaged: list[Damaged] = field(default_factory=list)
    _read: dict[str, list[Path]] = field(default_factory=dict)   # table → segments its view reads
    _lazy_checked: bool = False
    _made: set[str] = field(default_factory=set)                 # views

    def rows(self, sql: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Runs one query; each row is a dict. A segment that turns out damaged is left out and reported."""
        if not self._lazy_checked and any(name in sql for name in _lazy_names()):
            self._lazy_checked = True
            _attach(self)
        self.make_views(sql)
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

    def make_views(self, sql: str) -> None:
        """Makes the views that a text names, and those that they read."""
        for name in _WORD.findall(sql):
            if name in _views() and name not in self._made:
                self._made.add(name)
                self.make_views(_views()[name])
                self.db.execute(_views()[name])

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
    return _views()[name]


@cache
def _views() -> dict[str, str]:
    """By name, without their headers: those name other views too."""
    return {path.stem: _HEADER.sub("", path.read_text()) for path in sorted(VIEWS.glob("*/*.sql"))}


def open_run(folder: Path) -> RunReader:
    reader = RunReader(folder, duckdb.connect(":memory:", config={"threads": 2}))
    _attach(reader)
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
    names, texts = {LAZY}, _views()
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
    types = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}
    value = "{}" if parts else "NULL"
    cast = ", ".join(f"{value.format(f.name)}::{types[str(f.type)]} AS {f.name}" for f in schema)
    source = f"FROM ({' UNION ALL BY NAME '.join(parts)})" if parts else "WHERE false"
    reader.db.execute(f"CREATE OR REPLACE VIEW {table.name} AS SELECT {cast} {source}")
