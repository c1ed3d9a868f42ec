"""Columns of an SQLite file, read only → numpy, as fast as the file can be walked.

    with Database(path) as database:
        database.begin("CUPTI_ACTIVITY_KIND_KERNEL", {"start": "start", "node": "graphNodeId"})
        database.columns("CUPTI_ACTIVITY_KIND_KERNEL", {"start": "start", "node": "graphNodeId"}, damage)

The file is opened as immutable: nothing is locked, and nothing is written beside it. Columns that a schema lacks are
left out; a value that is null or no number is -1. Where a page is damaged, the rows before it are read one by one.

A large table is read in parts, two at once, and what `begin` was told of is read while others are being worked on.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import pyarrow as pa

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import MAGIC
from pellucid.trace.timeline import NOT_TOLD, Damage, Longs

BATCH_ROWS = "65536"
ROWS_AT_ONCE = 4096
PART_ROWS = 1 << 18         # chosen: a tenth of a second each, and the last of two threads waits for less
LEAST_ROW_BYTES = 8         # of a row on its page: pointer, length, number, types, values. More rows cannot be there
THREADS = 2                 # chosen: an analysis should leave cores to others; SQLite works outside Python's lock
SQLITE = b"SQLite format 3\0"
HEAD_BYTES = 100            # of the file: https://www.sqlite.org/fileformat2.html#the_database_header
PAGE_SIZE_AT, PAGES_AT = slice(16, 18), slice(28, 32)      # a page size of 1 means 65536
COLUMN = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Begun:
    """Columns that are being filled, in parts: (first row, rows at most, rows that were there)."""

    columns: list[Longs]
    parts: list[tuple[int, int, Future[int]]] = field(default_factory=list)


@dataclass(slots=True)
class Database:
    path: Path
    names: frozenset[str] = frozenset()
    uri: str = ""
    _slow: sqlite3.Connection = field(init=False)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS))
    _begun: dict[tuple[str, tuple[str, ...]], Begun] = field(default_factory=dict)

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
        self._pool.shutdown(cancel_futures=True)
        self._slow.close()

    def has(self, table: str, *columns: str) -> bool:
        return table in self.names and set(columns) <= self._columns(table)

    def begin(self, table: str, wanted: Mapping[str, str]) -> None:
        """Starts to read what `columns` will be asked for. Returns at once."""
        chosen = tuple(self._chosen(table, wanted).values())
        try:
            listed, parts = self._without_nulls(table, chosen), self._parts(table)
        except sqlite3.Error:       # said by what reads it row by row
            return
        columns = [np.empty(sum(rows for _, rows in parts), np.int64) for _ in chosen]
        begun, at = Begun(columns), 0
        for condition, rows in parts:
            query = f'SELECT {listed} FROM "{table}"{condition}'
            begun.parts.append((at, rows, self._pool.submit(_read, self.uri, query, columns, at, rows)))
            at += rows
        self._begun[table, chosen] = begun

    def columns(self, table: str, wanted: Mapping[str, str], damage: Damage) -> dict[str, Longs]:
        """Whole-number columns: name → SQL over columns of the table. None of it where the table is not there."""
        chosen = self._chosen(table, wanted)
        key = table, tuple(chosen.values())
        if not chosen:
            return {}
        if key not in self._begun:
            self.begin(table, wanted)
        try:
            found = self._read_whole(table, self._begun.pop(key))
        except (KeyError, adbc_driver_manager.Error, sqlite3.Error, pa.ArrowException, OverflowError, ValueError):
            found = self._row_by_row(table, key[1], damage)
        return dict(zip(chosen, found, strict=True))

    def _chosen(self, table: str, wanted: Mapping[str, str]) -> dict[str, str]:
        if table not in self.names:
            return {}
        there = self._columns(table)
        return {name: sql for name, sql in wanted.items() if set(COLUMN.findall(sql)) <= there}

    def _without_nulls(self, table: str, wanted: Sequence[str]) -> str:
        """Null is -1 already in SQL where the first row has one: a null takes Arrow twice as long as a number."""
        listed = [_quoted(sql) for sql in wanted]
        row = self._slow.execute(f'SELECT {", ".join(listed)} FROM "{table}" LIMIT 1').fetchone()
        return ", ".join(sql if row and value is not None else f"ifnull({sql}, {NOT_TOLD})"
                         for sql, value in zip(listed, row or listed, strict=True))  # fmt: skip

    def _parts(self, table: str) -> list[tuple[str, int]]:
        """Conditions that part a table by its row numbers, and how many rows each may have. Raises sqlite3.Error."""
        first, last = (self._row_number(table, end) for end in ("min", "max"))
        most_rows = self.path.stat().st_size // LEAST_ROW_BYTES
        if first is None or last is None or not PART_ROWS <= last - first < most_rows:
            return [("", self._count(table))]
        ends = [(at, min(last, at + PART_ROWS - 1)) for at in range(first, last + 1, PART_ROWS)]
        return [(f" WHERE rowid BETWEEN {at} AND {end}", end - at + 1) for at, end in ends]

    def _row_number(self, table: str, end: str) -> int | None:
        """The first or the last; None in a table that has none."""
        try:
            (number,), = self._slow.execute(f'SELECT {end}(rowid) FROM "{table}"')      # one alone is a look-up
        except sqlite3.Error:
            return None
        return number if type(number) is int else None

    def _count(self, table: str) -> int:
        (count,), = self._slow.execute(f'SELECT count(*) FROM "{table}"')
        return int(count)

    def _read_whole(self, table: str, begun: Begun) -> list[Longs]:
        """Raises ValueError where rows are missing: a search by row numbers that are damaged passes over some."""
        read = [(at, rows, part.result()) for at, rows, part in begun.parts]
        if all(count == rows for _, rows, count in read):
            return begun.columns
        if sum(count for _, _, count in read) != self._count(table):
            raise ValueError("parts do not make up the table")
        return [np.concatenate([column[at:at + count] for at, _, count in read]) for column in begun.columns]

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

    def _row_by_row(self, table: str, wanted: Sequence[str], damage: Damage) -> list[Longs]:
        query, rows = f'SELECT {", ".join(map(_quoted, wanted))} FROM "{table}"', list[list[int]]()
        try:
            cursor = self._slow.execute(query)
            while part := cursor.fetchmany(ROWS_AT_ONCE):
                rows += [[v if type(v) is int else NOT_TOLD for v in row] for row in part]
        except sqlite3.Error as error:
            damage.lost(f"{table} is damaged ({error}): the rows before the damage were read")
        return list(np.array(rows, np.int64).reshape(len(rows), len(wanted)).T)


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
    """Names of columns in quotes: `end` is a word of SQL."""
    return COLUMN.sub(lambda found: chr(34) + found[0] + chr(34), sql)


def _read(uri: str, query: str, columns: Sequence[Longs], start: int, most_rows: int) -> int:
    """Through Arrow into columns, from row `start` on. How many rows there were.

    Raises adbc_driver_manager.Error, pa.ArrowException, or ValueError where a column is not of whole numbers.
    """
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
        cursor.execute(query)
        at = start
        for batch in cursor.fetch_record_batch():
            end = at + batch.num_rows
            if end > start + most_rows or any(str(kind) not in ("int64", "null") for kind in batch.schema.types):
                raise ValueError("a column is not of whole numbers, or of too many")
            for column, values in zip(columns, batch.columns, strict=True):
                column[at:end] = _told(values)
            at = end
    return at - start


def _told(chunk: pa.Array) -> Longs | int:
    """Arrow's own fill_null loads pyarrow.compute: 0.1 s."""
    if chunk.null_count == len(chunk):
        return NOT_TOLD
    if not chunk.null_count:
        return np.asarray(chunk.to_numpy(), np.int64)
    bits, values = chunk.buffers()
    rows = slice(chunk.offset, chunk.offset + len(chunk))
    known = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[rows]
    return np.where(known, np.frombuffer(values, np.int64)[rows], NOT_TOLD)
