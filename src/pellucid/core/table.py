"""Literal tables for cases, tests and docs.

    rows('''step  waiting_count
            1     4
            2     -''') == [{"step": 1, "waiting_count": 4}, {"step": 2, "waiting_count": None}]

Cells are int, float, true/false, `-` for missing, else text. Columns are split by two spaces or more.
"""

from __future__ import annotations

import re

Cell = int | float | bool | str | None


def rows(text: str) -> list[dict[str, Cell]]:
    """Text table → rows. Raises ValueError on a row whose cells do not match the header."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines() if line.strip()]
    header = lines[0]
    for line in lines[1:]:
        if len(line) != len(header):
            raise ValueError(f"row {line} has {len(line)} cells, the header {header} has {len(header)}")
    return [dict(zip(header, map(_cell, line), strict=True)) for line in lines[1:]]


def _cell(text: str) -> Cell:
    if text == "-":
        return None
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
