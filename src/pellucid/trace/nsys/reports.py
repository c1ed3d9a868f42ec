"""CSV reports of `nsys stats` → sums per name, or a Timeline where the report has a row for each execution.

    Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
    24.9,1231822285,329035,3743.7,3712.0,2079,5856,416.2,"void gemv<…>(T13)"

Reports differ by version in the order of columns, in units (`Total Time (ms)`) and in names (`Instances`, `Count`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    NOT_TOLD,
    About,
    Damage,
    KernelRow,
    KernelTable,
    Longs,
    Numbered,
    Timeline,
    host_of,
    kernels_of,
)

FORMAT = "nsys_csv"
UNIT_NS = {"ns": 1, "nsec": 1, "us": 1_000, "usec": 1_000, "μs": 1_000, "ms": 1_000_000, "msec": 1_000_000,
           "s": 1_000_000_000, "sec": 1_000_000_000}  # fmt: skip
UNIT_BYTES = {"b": 1, "bytes": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000,
              "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}  # fmt: skip
COLUMN = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$")
SUM_NAMES = ("Name", "Kernel Name", "Operation", "Range", "Kernel")
COUNTS = ("Instances", "Count", "Num Calls", "Calls", "Kern Inst", "Total")
HEAD_LINES = 40         # chosen: what `nsys stats` may print before its table
NOT_WHOLE = "a row has no name or no time that can be read"


def table_at(lines: list[str]) -> int | None:
    """The line with the names of a report's columns; None where there is none."""
    for at, line in enumerate(lines[:HEAD_LINES]):
        names = {_column(name)[0] for name in line.replace('"', "").strip().split(",")}
        if is_sums(names) or is_executions(names):
            return at
    return None


def is_sums(names: set[str]) -> bool:
    return "Total Time" in names and bool(names & {*COUNTS}) and bool(names & {*SUM_NAMES})


def is_executions(names: set[str]) -> bool:
    return {"Start", "Duration", "Name"} <= names and bool(names & {"GrdX", "Strm", "Device", "CorrId"})


def read(path: Path) -> KernelTable | Timeline:
    """Raises AskedWrongly where the file is no such report."""
    damage, redactor = Damage(), Redactor()
    lines = lines_of(read_text(path, damage))
    at = table_at(lines)
    if at is None:
        raise AskedWrongly(f"{path} has no table of nsys stats")
    if is_sums({_column(name)[0] for name in lines[at].replace('"', "").strip().split(",")}):
        return _sums(path, lines[at:], damage, redactor)
    return _executions(path, lines[at:], damage, redactor)


def _column(title: str) -> tuple[str, str]:
    """(name, unit)"""
    found = COLUMN.match(title.strip())
    return (found[1], (found[2] or "").lower()) if found else (title, "")


def _units(row: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Name of a column → (its title in the file, its unit)"""
    return {_column(title)[0]: (title, _column(title)[1]) for title in reversed(list(row))}


def _ns(row: Mapping[str, str], units: Mapping[str, tuple[str, str]], *names: str) -> float | None:
    for name in names:
        title, unit = units.get(name, ("", ""))
        value = number(row.get(title))
        if value is not None:
            return value * UNIT_NS.get(unit, 1)
    return None


def _sums(path: Path, lines: list[str], damage: Damage, redactor: Redactor) -> KernelTable:
    found = []
    for row in rows(lines, damage):
        units = _units(row)
        total_ns = whole(_ns(row, units, "Total Time"))
        name = next((row[units[n][0]] for n in SUM_NAMES if n in units), None)
        if total_ns is None or name is None:
            damage.lost(NOT_WHOLE)
            continue
        count = next((number(row[units[n][0]]) for n in COUNTS if n in units), None)
        found.append(KernelRow(
            name=redactor.text(name), count=count, total_ns=total_ns,
            mean_ns=_ns(row, units, "Avg", "Average"), median_ns=_ns(row, units, "Med", "Median"),
            min_ns=_ns(row, units, "Min", "Minimum"), max_ns=_ns(row, units, "Max", "Maximum"),
        ))  # fmt: skip
    cut = any(row.name.endswith("...") for row in found)
    return KernelTable(_about(path, damage, redactor), per="capture", names_cut=cut, rows=tuple(found))


def _executions(path: Path, lines: list[str], damage: Damage, redactor: Redactor) -> Timeline:
    names, extents = Numbered[str](), Numbered[tuple[int, int, int]]()
    made: list[tuple[int, ...]] = []
    for row in rows(lines, damage):
        units = _units(row)
        start_ns, duration_ns = whole(_ns(row, units, "Start")), whole(_ns(row, units, "Duration"))
        if start_ns is None or duration_ns is None or duration_ns < 0 or "Name" not in units:
            damage.lost(NOT_WHOLE)
            continue
        name = row[units["Name"][0]]
        kind = MEMCPY if "memcpy" in name.lower() else MEMSET if "memset" in name.lower() else KERNEL
        made.append((
            names[name], kind, start_ns, duration_ns, _device(row, units), _whole(row, units, "Strm"),
            _whole(row, units, "CorrId"), _extent(extents, row, units, "Grd"), _extent(extents, row, units, "Blk"),
            _bytes(row, units),
        ))  # fmt: skip
    columns = ("name", "kind", "start_ns", "duration_ns", "device", "stream", "correlation", "grid", "block",
               "copied_bytes")
    values = np.array(made, np.int64).reshape(len(made), len(columns)).T
    none: dict[str, Longs] = {name: np.zeros(0, np.int64) for name in ("name", "kind", "start_ns", "duration_ns")}
    kernels, host = linked(kernels_of(dict(zip(columns, values, strict=True))), host_of(none))
    return Timeline(_about(path, damage, redactor), kernels, host, tuple(redactor.text(n) for n in names), (),
                    tuple(extents), ())  # fmt: skip


def _whole(row: Mapping[str, str], units: Mapping[str, tuple[str, str]], name: str) -> int:
    value = whole(number(row.get(units.get(name, ("", ""))[0])))
    return NOT_TOLD if value is None else value


def _device(row: Mapping[str, str], units: Mapping[str, tuple[str, str]]) -> int:
    """`NVIDIA H100 (1)` is device 1."""
    found = re.search(r"\((\d+)\)\s*$", row.get(units.get("Device", ("", ""))[0], ""))
    return int(found[1][-9:]) if found else NOT_TOLD


def _extent(extents: Numbered[tuple[int, int, int]], row: Mapping[str, str], units: Mapping[str, tuple[str, str]],
            side: str) -> int:  # fmt: skip
    x, y, z = (_whole(row, units, side + axis) for axis in "XYZ")
    return NOT_TOLD if NOT_TOLD in (x, y, z) else extents[(x, y, z)]


def _bytes(row: Mapping[str, str], units: Mapping[str, tuple[str, str]]) -> int:
    title, unit = units.get("Bytes", ("", ""))
    value = number(row.get(title))
    size_bytes = None if value is None else whole(value * UNIT_BYTES.get(unit, 1))
    return NOT_TOLD if size_bytes is None else size_bytes


def _about(path: Path, damage: Damage, redactor: Redactor) -> About:
    return About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, damaged_count=damage.count,
                 damage=damage.sentences(), redacted_count=redactor.count)  # fmt: skip
