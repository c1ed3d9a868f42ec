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

GAP = 2
MOST_CHARS = 60     # chosen: half a wide page; kernels have names of thousands. JSON and CSV have all of them
Rows = Sequence[Mapping[str, Any]]


def table(rows: Rows, columns: Sequence[str], moments: Collection[str], origin_ns: int | None) -> Table:
    """On a narrow page the first column, an id, gives way; figures stay whole."""
    shown = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        width, text = _width(rows, name, moments, origin_ns), any(isinstance(row[name], str) for row in rows)
        shown.add_column(
            fold(name, width), justify="left" if text else "right", no_wrap=True,
            min_width=min(width, 12) if place == 0 else width,
        )  # fmt: skip
    for row in rows:
        shown.add_row(*(_cell(name, row[name], moments, origin_ns) for name in columns))
    return shown


def fitting(
    rows: Rows, columns: Sequence[str], moments: Collection[str], origin_ns: int | None, page_width: int
) -> tuple[str, ...]:
    """As many of the columns as the page has room for, the first one whole."""
    used, fit = 0, list[str]()
    for name in columns:
        used += _width(rows, name, moments, origin_ns) + GAP
        if fit and used > page_width:
            break
        fit.append(name)
    return tuple(fit)


def _width(rows: Rows, name: str, moments: Collection[str], origin_ns: int | None) -> int:
    """Of the widest cell, and of the longest part of the folded name."""
    cells = max(len(_cell(name, row[name], moments, origin_ns)) for row in rows)
    return max(cells, *(len(line) for line in fold(name, cells).split("\n")))


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
    text = "".join(c if c.isprintable() else "\ufffd" for c in value(name, cell))
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS - 1]}…"
