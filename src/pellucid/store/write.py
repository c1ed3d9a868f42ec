"""One recorder writes a run: append, flush, seal.

    writer = RunWriter(folder, limits, clock)
    writer.append("steps", row)      # a tuple in schema order
    writer.tick()                    # often: flushes what is due, seals what is full

`kill -9` loses what `tick` had not flushed yet (0.5 s by default). A full disk loses nothing sealed: rows wait
in memory up to `max_pending_rows` a table, then the oldest go and are counted in `lost_rows`. A row that does not fit
its table's types is left out and counted there too: one odd record must not end a recording.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid.core.clock import Clock
from pellucid.core.errors import Failed
from pellucid.core.units import S_NS
from pellucid.store.expire import Expiry, Retention, as_set
from pellucid.store.schema import TABLES, Table
from pellucid.store.segment import next_number, seal, tail_path

Row = tuple[Any, ...]
LOCK_S = 0.2   # `pellucid runs` holds the lock for microseconds to see whether a run is being recorded


@dataclass(frozen=True, slots=True)
class Limits:
    flush_s: float = 0.5
    seal_s: float = 3600.0
    seal_rows: int = 200_000
    max_pending_rows: int = 100_000
    retention: Retention | None = None   # None: as the settings say


@dataclass(slots=True)
class _Open:
    """A table's open tail."""

    table: Table
    schema: pa.Schema
    number: int
    pending: deque[Row]
    rows: int = 0
    opened_ns: int = 0
    fd: int | None = None


@dataclass(slots=True)
class RunWriter:
    folder: Path
    limits: Limits
    clock: Clock
    lost_rows: int = 0
    fault: str = ""
    _tables: dict[str, _Open] = field(default_factory=dict)
    _lock_fd: int = -1
    _flushed_ns: int = 0
    _expiry: Expiry = field(init=False)

    def __post_init__(self) -> None:
        """Raises Failed when the folder cannot be written or another recorder holds it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock_fd = os.open(self.folder / "recorder.lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise Failed(f"cannot record into {self.folder}: {error.strerror}. Set PELLUCID_HOME to a writable folder") from error  # noqa: E501
        lock(self._lock_fd, self.folder)
        for table in TABLES.values():
            number = next_number(self.folder, table.name)
            self._tables[table.name] = _Open(table, table.arrow(), number, deque())
        self._expiry = Expiry(self.folder, self.limits.retention or as_set())

    def append(self, table: str, row: Row) -> None:
        self._tables[table].pending.append(row)

    def tick(self) -> None:
        now = self.clock()
        if now - self._flushed_ns >= self.limits.flush_s * S_NS:
            self.flush()

    def flush(self) -> None:
        """Pending rows → tails; full or old tails → segments. Never raises on a full disk: `fault` says so."""
        self._flushed_ns = self.clock()
        self.fault = ""
        for tail in self._tables.values():
            try:
                self._flush(tail)
                self._seal_if_due(tail)
            except OSError as error:
                self.fault = f"{error.strerror or error} in {self.folder}"
                self._shed(tail)
        self._expiry.tick(self._flushed_ns)

    def close(self) -> None:
        """Flushes and seals. What a full disk leaves no room for is counted in `lost_rows`; tails stay readable."""
        self.flush()
        for tail in self._tables.values():
            self.lost_rows += len(tail.pending)
            tail.pending.clear()
            try:
                if tail.rows:
                    self._seal(tail)
            except OSError as error:
                self.fault = f"{error.strerror or error} in {self.folder}"
            if tail.fd is not None:
                os.close(tail.fd)
                tail.fd = None
        os.close(self._lock_fd)

    def _flush(self, tail: _Open) -> None:
        if not tail.pending:
            return
        if tail.fd is None:
            path = tail_path(self.folder, tail.table.name, tail.number)
            tail.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            tail.opened_ns = self.clock()
        if os.fstat(tail.fd).st_size == 0:   # also when the disk was full the first time
            _write_whole(tail.fd, memoryview(tail.schema.serialize()))
        batch = self._batch(tail)
        if batch.num_rows:
            _write_whole(tail.fd, memoryview(batch.serialize()))
        tail.pending.clear()
        tail.rows += batch.num_rows

    def _batch(self, tail: _Open) -> pa.RecordBatch:
        try:
            return _columns(tail.pending, tail.schema)
        except (ValueError, TypeError, OverflowError):
            good = deque(row for row in tail.pending if _fits(row, tail.schema))
            self.lost_rows += len(tail.pending) - len(good)
            tail.pending = good
            return _columns(good, tail.schema)

    def _seal_if_due(self, tail: _Open) -> None:
        old = self.clock() - tail.opened_ns >= self.limits.seal_s * S_NS
        if tail.rows and (old or tail.rows >= self.limits.seal_rows):
            self._seal(tail)

    def _seal(self, tail: _Open) -> None:
        seal(self.folder, tail.table, tail.number)
        if tail.fd is not None:
            os.close(tail.fd)
        tail.fd, tail.rows, tail.number = None, 0, tail.number + 1

    def _shed(self, tail: _Open) -> None:
        while len(tail.pending) > self.limits.max_pending_rows:
            tail.pending.popleft()
            self.lost_rows += 1


def lock(fd: int, folder: Path) -> None:
    """Takes a folder for one recorder, until the process ends. Raises Failed when another holds it."""
    end_s = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() >= end_s:
                raise Failed(f"another recorder is at work in {folder}. One at a time: stop it, or record elsewhere") from error  # noqa: E501
        time.sleep(0.01)


def _columns(rows: deque[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows → columns. Raises ValueError, TypeError or OverflowError (pyarrow's are among them) on a row that does not fit."""  # noqa: E501
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fits(row: Row, schema: pa.Schema) -> bool:
    try:
        _columns(deque((row,)), schema)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _write_whole(fd: int, data: memoryview) -> None:
    """All bytes or none: a short write is undone, so the tail always ends in a whole batch."""
    start = os.lseek(fd, 0, os.SEEK_END)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        os.ftruncate(fd, start)
        raise
