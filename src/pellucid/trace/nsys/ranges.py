"""NVTX ranges of an export → operators and annotations.

    "aten::mm, seq = 5, sizes = [[2, 3], [3, 4]], op_id = 9"    operator aten::mm with shapes [[2, 3], [3, 4]]
    "decode step 7"                                             annotation

PyTorch's `emit_nvtx` writes an operator's number and shapes behind its name: they are taken apart, or each execution
would be a name of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from pellucid.trace.nsys.tables import Database
from pellucid.trace.timeline import ANNOTATION, NOT_TOLD, OP, Damage, Longs, Numbered

PUSH_POP, START_END = 59, 60        # ENUM_NSYS_EVENT_TYPE
OPERATOR = re.compile(r"^(.*?), (?:seq|op_id|sizes) = ")
SIZES = re.compile(r"\bsizes = (\[.*\])(?:, \w+ = |$)")
OPEN = "a range has no end"


@dataclass(slots=True)
class Ranges:
    names: list[str] = field(default_factory=list)          # of each range
    texts: Numbered[str] = field(default_factory=Numbered)  # shapes
    columns: dict[str, Longs] = field(default_factory=dict)


def read_ranges(database: Database, damage: Damage) -> Ranges:
    ranges, rows = Ranges(), []
    for start, end, thread, text in database.rows(_query(database), damage):
        if not isinstance(start, int) or not isinstance(end, int) or end < start:
            damage.lost(OPEN)
            continue
        kind, name, shapes = _taken_apart(str(text or ""))
        ranges.names.append(name)
        rows.append((start, end - start, thread if isinstance(thread, int) else NOT_TOLD, kind,
                     ranges.texts[shapes] if shapes else NOT_TOLD))  # fmt: skip
    made = np.array(rows, np.int64).reshape(len(rows), 5).T
    ranges.columns = dict(zip(("start_ns", "duration_ns", "thread", "kind", "shapes"), made, strict=True))
    return ranges


def _query(database: Database) -> str:
    text = "text" if database.has("NVTX_EVENTS", "text") else "NULL"
    if database.has("NVTX_EVENTS", "textId") and database.has("StringIds", "id", "value"):
        text = f"coalesce({text}, (SELECT value FROM StringIds WHERE id = textId))"
    thread = "globalTid" if database.has("NVTX_EVENTS", "globalTid") else "NULL"
    which = f"WHERE eventType IN ({PUSH_POP}, {START_END})" if database.has("NVTX_EVENTS", "eventType") else ""
    return f'SELECT start, "end", {thread}, {text} FROM NVTX_EVENTS {which}'


def _taken_apart(text: str) -> tuple[int, str, str]:
    """(kind, name, shapes)"""
    found = OPERATOR.match(text)
    if not found:
        return ANNOTATION, text, ""
    sizes = SIZES.search(text, found.end(1))
    return OP, found[1], sizes[1] if sizes else ""
