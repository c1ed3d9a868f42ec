"""Rows of a log, for tests: from a file of ours or from literal text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.catalog.log_lines import known
from pellucid.collect.logs.read import LogReader, Seen, read_log
from pellucid.store.schema import LOG_EVENTS
from pellucid.store.write import Row

CHANGED_NS = 1_796_000_000_000_000_000      # 2026-11-29 22:13 UTC
Rows = list[dict[str, Any]]


def of_file(path: Path) -> tuple[Seen, Rows]:
    rows: Rows = []
    seen = read_log(path, lambda table, row: _keep(rows, table, row))
    return seen, rows


def of_text(*lines: str, whole: bool = True) -> Rows:
    """Without `whole`, the file ends within its last line."""
    rows: Rows = []
    reader = LogReader("engine.log", CHANGED_NS, lambda table, row: _keep(rows, table, row), known())
    for number, line in enumerate(lines, 1):
        reader.take(line + ("\n" if whole or number < len(lines) else ""), number)
    reader.end()
    return rows


def only(rows: Sequence[dict[str, Any]], kind: str) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def said(row: dict[str, Any]) -> dict[str, Any]:
    """What a row has besides where it comes from."""
    left = {"deployment", "engine", "file", "time_basis", "line", "lines_count", "message", "time_ns", "process"}
    return {name: value for name, value in row.items() if value is not None and name not in left}


def _keep(rows: Rows, table: str, row: Row) -> None:
    if table == "log_events":
        rows.append(dict(zip(LOG_EVENTS.names(), row, strict=True)))
