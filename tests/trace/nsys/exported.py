"""Databases written out for a case: table → columns and rows, as an export of Nsight Systems has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Table = tuple[str, Sequence[Sequence[Any]]]         # columns in words, rows
K, R = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
PROCESS = 7 << 24                                   # a global id: process << 24 | thread
SMALL: dict[str, Table] = {
    "StringIds": ("id value", [(1, "void gemm<float>(T1)"), (2, "gemm"), (3, "cudaLaunchKernel_v7000"), (4, "step 9")]),
    K: ("start end deviceId streamId correlationId globalPid demangledName shortName gridX gridY gridZ blockX blockY "
        "blockZ graphNodeId", [(100, 150, 1, 7, 55, PROCESS, 1, 2, 2147483647, 65535, 3, 128, 1, 1, None)]),
    R: ("start end globalTid correlationId nameId", [(80, 90, PROCESS | 5, 55, 3)]),
    "NVTX_EVENTS": ("start end eventType text globalTid textId", [
        (70, 95, 59, "aten::mm, seq = 5, sizes = [[2, 3], [3, 4]], op_id = 9", PROCESS | 5, None),
        (60, 99, 60, None, PROCESS | 5, 4), (61, None, 59, "open", PROCESS | 5, None),
        (62, 63, 34, "mark", PROCESS, None),
    ]),
}  # fmt: skip


def export(path: Path, tables: Mapping[str, Table] = SMALL) -> Path:
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        words = columns.split()
        quoted = ", ".join(f'"{word}"' for word in words)
        connection.execute(f"CREATE TABLE {name} ({quoted})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(words))})", rows)
    connection.commit()
    connection.close()
    return path


def without(table: str, *columns: str) -> dict[str, Table]:
    """The small export, a table of it without some columns."""
    words, rows = SMALL[table][0].split(), SMALL[table][1]
    kept = [i for i, word in enumerate(words) if word not in columns]
    return {**SMALL, table: (" ".join(words[i] for i in kept), [[row[i] for i in kept] for row in rows])}
