"""A table with a row for each event of a torch profiler, as serving tools export it → a Timeline.

    #rank|epoch|iteration_no|event_id|event_operation|device_us|cpu_us|time_range_start_us|time_range_end_us|…
    0|1|1|1|Memcpy HtoD (Pinned -> Device)|1392.89|0.00|1450.77|2843.66|…

Times are microseconds from the start of the profile, with two decimals. The table tells no streams and no launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.trace.link import linked
from pellucid.trace.redact import Redactor
from pellucid.trace.tables.text import lines_of, number, read_text, rows, whole
from pellucid.trace.timeline import (
    KERNEL,
    MEMCPY,
    MEMSET,
    OP,
    About,
    Damage,
    Longs,
    Numbered,
    Timeline,
    host_of,
    kernels_of,
)

FORMAT = "kernel_table"
SEPARATOR = "|"
START, END, NAME, DEVICE_TIME = "time_range_start_us", "time_range_end_us", "event_operation", "device_us"
NS_IN_US = 1000
COLUMNS = ("name", "kind", "start_ns", "duration_ns", "thread")
NOT_WHOLE = "a row has no name or no time that can be read"


def fits(first_line: str) -> bool:
    return {START, END, NAME, DEVICE_TIME} <= set(first_line.strip().lstrip("#").split(SEPARATOR))


def read(path: Path) -> Timeline:
    """Raises AskedWrongly where the file is no such table."""
    damage, redactor = Damage(), Redactor()
    lines = lines_of(read_text(path, damage))
    if not lines or not fits(lines[0]):
        raise AskedWrongly(f"{path} is no table of a profiler's events")
    lines[0] = lines[0].lstrip("#")
    names = Numbered[str]()
    device: list[tuple[int, ...]] = []
    host: list[tuple[int, ...]] = []
    ranks: set[int] = set()
    for row in rows(lines, damage, SEPARATOR, quoted=False):
        start_ns, end_ns = _ns(row.get(START)), _ns(row.get(END))
        if start_ns is None or end_ns is None or end_ns < start_ns or NAME not in row:
            damage.lost(NOT_WHOLE)
            continue
        ranks |= {rank} if (rank := whole(number(row.get("rank")))) is not None and rank >= 0 else set()
        times = start_ns, end_ns - start_ns
        if number(row.get("cpu_us")):
            host.append((names[row[NAME]], OP, *times, 0))
        else:
            device.append((names[row[NAME]], _kind(row), *times, 0))
    kernels, events = linked(kernels_of(_columns(device)), host_of(_columns(host)))
    about = About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size,
                  rank=ranks.pop() if len(ranks) == 1 else None, damaged_count=damage.count,
                  damage=damage.sentences(), redacted_count=redactor.count)  # fmt: skip
    return Timeline(about, kernels, events, tuple(redactor.text(n) for n in names), (), (), ((-1, -1),))


def _ns(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else whole(value * NS_IN_US)


def _kind(row: Mapping[str, str]) -> int:
    return MEMCPY if row[NAME].startswith("Memcpy") else MEMSET if row[NAME].startswith("Memset") else KERNEL


def _columns(made: list[tuple[int, ...]]) -> dict[str, Longs]:
    return dict(zip(COLUMNS, np.array(made, np.int64).reshape(len(made), len(COLUMNS)).T, strict=True))
