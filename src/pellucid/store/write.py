"""One recorder writes a run: append, flush, seal.

    writer = RunWriter(folder, limits, clock)
    writer.append("steps", row)      # a tuple in schema order
    writer.tick()                    # often: flushes what is due, seals what is full

`kill -9` loses what `tick` had not flushed yet (0.5 s by default). A full disk loses nothing sealed: rows wait
in memory up to `max_pending_rows` a table, then the oldest go and are counted in `lost_rows`.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid.core.clock import Clock
from pellucid.core.errors import Failed
from pellucid.core.units import S_NS
from pellucid.store.schema import TABLES, Table
from pellucid.store.segment import next_number, seal, tail_path

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    flush_s: float = 0.5
    seal_s: float = 3600.0
    seal_rows: int = 200_000
    max_pending_rows: int = 100_000


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

    def close(self) -> None:
        self.flush()
        for tail in self._tables.values():
            if tail.rows and not self.fault:
                self._seal(tail)
            elif tail.fd is not None:
                os.close(tail.fd)
        os.close(self._lock_fd)

    def _flush(self, tail: _Open) -> None:
        if not tail.pending:
            return
        if tail.fd is None:
            path = tail_path(self.folder, tail.table.name, tail.number)
            tail.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            tail.opened_ns = self.clock()
            if os.fstat(tail.fd).st_size == 0:
                _write_whole(tail.fd, memoryview(tail.schema.serialize()))
        count = len(tail.pending)
        columns = zip(*(tail.pending[i] for i in range(count)), strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, tail.schema, strict=True)]
        _write_whole(tail.fd, memoryview(pa.RecordBatch.from_arrays(arrays, schema=tail.schema).serialize()))
        for _ in range(count):
            tail.pending.popleft()
        tail.rows += count

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
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failed(f"another recorder is at work in {folder}. One at a time: stop it, or record elsewhere") from error


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
