"""Columns of an SQLite file, read only → numpy, as fast as the file can be walked.

    with Database(path) as database:
        database.columns("CUPTI_ACTIVITY_KIND_KERNEL", {"start": "start", "node": "graphNodeId"}, damage)

The file is opened as immutable: nothing is locked, and nothing is written beside it. Columns that a schema lacks are
left out; a value that is null or no number is -1. Where a page is damaged, the rows before it are read one by one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import MAGIC
from pellucid.trace.timeline import NOT_TOLD, Damage, Longs

BATCH_ROWS = "65536"
ROWS_AT_ONCE = 4096
SQLITE = b"SQLite format 3\0"
HEAD_BYTES = 100            # of the file: https://www.sqlite.org/fileformat2.html#the_database_header
PAGE_SIZE_AT, PAGES_AT = slice(16, 18), slice(28, 32)      # a page size of 1 means 65536
COLUMN = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Database:
    path: Path
    names: frozenset[str] = frozenset()
    uri: str = ""
    _slow: sqlite3.Connection = field(init=False)

    def __enter__(self) -> Database:
        """Raises AskedWrongly where the file is no whole database."""
        _refuse_packed_or_cut(self.path)
        self.uri = f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1"
        try:
            self._slow = sqlite3.connect(self.uri, uri=True)
            self._slow.text_factory = lambda raw: raw.decode(errors="replace")
            listed = self._slow.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        except sqlite3.Error as error:
            raise AskedWrongly(f"{self.path} is no SQLite database that can be read: {error}. "
                               f"Try: nsys export --type sqlite REPORT.nsys-rep") from error  # fmt: skip
        self.names = frozenset(str(name) for name, in listed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._slow.close()

    def has(self, table: str, *columns: str) -> bool:
        return table in self.names and set(columns) <= self._columns(table)

    def columns(self, table: str, wanted: Mapping[str, str], damage: Damage) -> dict[str, Longs]:
        """Whole-number columns: name → SQL over columns of the table. None of it where the table is not there."""
        if table not in self.names:
            return {}
        there = self._columns(table)
        chosen = {name: sql for name, sql in wanted.items() if set(COLUMN.findall(sql)) <= there}
        if not chosen:
            return {}
        query = f"SELECT {', '.join(_quoted(sql) for sql in chosen.values())} FROM \"{table}\""
        try:
            return dict(zip(chosen, _fast(self.uri, query), strict=True))
        except (adbc_driver_manager.Error, OverflowError, ValueError):
            return dict(zip(chosen, self._row_by_row(table, query, len(chosen), damage), strict=True))

    def rows(self, query: str, damage: Damage, values: Sequence[int] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows as they are; those before the damage where the table is damaged. None where it is not there."""
        try:
            cursor = self._slow.execute(query, values)
            while part := cursor.fetchmany(ROWS_AT_ONCE):
                yield from part
        except sqlite3.OperationalError as error:
            if "no such" not in str(error):
                damage.odd(f"a table is damaged ({error}): the rows before the damage were read")
        except sqlite3.Error as error:
            damage.odd(f"a table is damaged ({error}): the rows before the damage were read")

    def _columns(self, table: str) -> set[str]:
        try:
            return {str(row[1]) for row in self._slow.execute(f'PRAGMA table_info("{table}")')}
        except sqlite3.Error:
            return set()

    def _row_by_row(self, table: str, query: str, width: int, damage: Damage) -> list[Longs]:
        rows: list[list[int]] = []
        try:
            cursor = self._slow.execute(query)
            while part := cursor.fetchmany(ROWS_AT_ONCE):
                rows += [[v if type(v) is int else NOT_TOLD for v in row] for row in part]
        except sqlite3.Error as error:
            damage.lost(f"{table} is damaged ({error}): the rows before the damage were read")
        return list(np.array(rows, np.int64).reshape(len(rows), width).T)


def _refuse_packed_or_cut(path: Path) -> None:
    """Raises AskedWrongly. SQLite reads nothing of a file that is shorter than its head says."""
    try:
        with path.open("rb") as f:
            head = f.read(HEAD_BYTES)
        size_bytes = path.stat().st_size
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror or error}") from error
    if head.startswith(MAGIC):
        raise AskedWrongly(f"{path} is packed: a database has to lie on the disk as it is. Try: gunzip {path}")
    page_bytes = int.from_bytes(head[PAGE_SIZE_AT]) or 1
    whole_bytes = (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[PAGES_AT])
    if head.startswith(SQLITE) and size_bytes < whole_bytes:
        raise AskedWrongly(f"{path} is cut: {size_bytes} of its {whole_bytes} bytes are there. Try: copy it again")


def _quoted(sql: str) -> str:
    """Names of columns in quotes, `end` is a word of SQL; null is -1."""
    return f"ifnull({COLUMN.sub(lambda found: chr(34) + found[0] + chr(34), sql)}, {NOT_TOLD})"


def _fast(uri: str, query: str) -> list[Longs]:
    """Through Arrow. Raises adbc_driver_manager.Error, OverflowError or ValueError."""
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
        cursor.execute(query)
        table = cursor.fetch_arrow_table()
        if any(str(kind) not in ("int64", "null") for kind in table.schema.types):
            raise ValueError("a column is not of whole numbers")
        return [np.asarray(column.to_numpy(), np.int64) for column in table.columns]
