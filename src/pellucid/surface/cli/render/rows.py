"""Rows → a table without lines; numbers to the right, moments as time since the run began.

    request_id   arrival   ttft    output_  finish_
                      ns     ns     tokens   reason
    cmpl-9f2c    +1.204s  81 ms        128     stop
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.table import Table

from pellucid.surface.cli.render.page import MISSING, value


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], moments: Collection[str], origin_ns: int | None
) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        cells = [_cell(name, row[name], moments, origin_ns) for row in rows]
        text = any(isinstance(row[name], str) for row in rows)
        width = max(map(len, cells))
        shown.add_column(fold(name, max(width, 8)), justify="left" if text else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*(_cell(name, row[name], moments, origin_ns) for name in columns))
    return shown


def fold(name: str, width: int) -> str:
    """A column's name over as many lines as it takes; only after an underscore, so that it can be read off."""
    lines = [""]
    parts = name.split("_")
    for n, part in enumerate(parts):
        piece = part + ("_" if n < len(parts) - 1 else "")
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _cell(name: str, cell: object, moments: Collection[str], origin_ns: int | None) -> str:
    if name in moments and isinstance(cell, int):
        return f"+{(cell - origin_ns) / 1e9:.3f}s" if origin_ns is not None else MISSING
    return value(name, cell)
