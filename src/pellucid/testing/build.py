"""Literal rows → a run folder, for tests, docs and rule cases on disk.

    build_run(home / "runs" / "20261130-091500-a1b2", {"steps": rows('''step  start_ns  end_ns
                                                                       1     0         10''')})

A column that is not given is null: not seen. A column the schema does not have is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.core.clock import monotonic_ns
from pellucid.core.run import RunInfo, write_info
from pellucid.store.schema import TABLES
from pellucid.store.write import Limits, RunWriter

Rows = Sequence[Mapping[str, Any]]


def build_run(folder: Path, tables: Mapping[str, Rows], info: RunInfo | None = None) -> Path:
    """Writes and seals a run; returns its folder. Raises ValueError on a table or column the schema lacks."""
    writer = RunWriter(folder, Limits(), monotonic_ns)
    write_info(folder, info or RunInfo(folder.name, 1_700_000_000_000_000_000, [], ""))
    append_rows(writer, tables)
    writer.close()
    return folder


def append_rows(writer: RunWriter, tables: Mapping[str, Rows]) -> None:
    """Appends literal rows to an open writer, for tests that look at a run while it is being recorded."""
    for name, rows in tables.items():
        if name not in TABLES:
            raise ValueError(f"no table {name}; the schema has {', '.join(TABLES)}")
        columns = TABLES[name].names()
        for row in rows:
            unknown = set(row) - set(columns)
            if unknown:
                raise ValueError(f"{name} has no column {', '.join(sorted(unknown))}")
            writer.append(name, tuple(row.get(c) for c in columns))
