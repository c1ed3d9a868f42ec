"""The page everything is printed on: 100 columns at most, colour only on a terminal.

    show(grid)
"""

from __future__ import annotations

import shutil
import sys

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import duration, percent, size, unit_of

WIDTH = 100
MISSING = "–"


def page(wide: bool = False) -> Console:
    """`wide` is for tables: the whole terminal, and no limit where the output is not a terminal."""
    return Console(width=page_width(wide), highlight=False, markup=False, emoji=False)


def page_width(wide: bool) -> int:
    if not sys.stdout.isatty():
        return 400 if wide else WIDTH
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return columns if wide else min(WIDTH, columns)


def show(what: RenderableType, wide: bool = False) -> None:
    """Prints; into a pipe as plain lines without the spaces that fill a page up."""
    console = page(wide)
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def grid(label_width: int = 11) -> Table:
    """Two columns without lines: a label, and text that wraps beside it."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=label_width, no_wrap=True, style="dim")
    table.add_column(ratio=1, overflow="fold")
    table.expand = True
    return table


def heading(text: str) -> Text:
    return Text(text, style="bold")


def value(column: str, cell: object) -> str:
    """A cell in its unit's spelling: 81 ms, 1.2 GiB, 34%, 1,024; – for missing."""
    if cell is None:
        return MISSING
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    unit = unit_of(column)
    if unit == "ns":
        return duration(cell)
    if unit == "s":
        return duration(cell * 1e9)
    if unit == "bytes":
        return size(cell)
    if unit == "ratio":
        return percent(cell)
    return number(cell)


def number(cell: float) -> str:
    if isinstance(cell, int) or float(cell).is_integer():
        return f"{cell:,.0f}"
    return f"{cell:,.1f}" if abs(cell) >= 10 else f"{cell:.3g}"
