"""The table that a torch profiler prints (`key_averages().table()`) → a KernelTable of what ran on the device.

                               Name    Self CPU %      Self CPU  …    Self CUDA   Self CUDA %  …    # of Calls
                   fused_moe_kernel         0.00%       0.000us  …    614.452ms        57.90%  …          1536
    Self CUDA time total: 1.061s

Operators have time on the host and are left out. Annotations have none, like kernels, and the table does not say which
is which: what is spelt like one is left out. Names are cut after 55 characters.
"""

from __future__ import annotations

import re
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.trace.redact import Redactor
from pellucid.trace.tables.text import lines_of, number, read_text, whole
from pellucid.trace.timeline import About, Damage, KernelRow, KernelTable

FORMAT = "kernel_table"
HEAD_LINES = 40
UNIT_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
TIME = re.compile(r"^([\d.]+)(us|ms|s)$")
BETWEEN = re.compile(r"\s{2,}")
DEVICE_TIME = re.compile(r"^Self (CUDA|XPU|HIP|device|MTIA|PrivateUse1)$", re.IGNORECASE)
TOTAL = re.compile(r"Self (?:CUDA|XPU|HIP|device|MTIA|PrivateUse1) time total: ([\d.]+(?:us|ms|s))", re.IGNORECASE)
# A compiled graph, a step, a range of a collective, or a name with counts in brackets in it.
ANNOTATION = re.compile(r"^## |#\d|^(?:nccl|gloo):|^\w+\([^()]*\)_\w+\([^()]*\)$|^Optimizer\.|^## $")
ROUNDING_RATIO = 1.01       # chosen: the table's total has four digits, its rows have six
TOO_MUCH = "the rows sum to more than the table's own total: annotations are among the kernels"
CUT = "the table has no total at its end: it may be cut"


def fits(lines: list[str]) -> bool:
    return _head(lines) is not None


def read(path: Path) -> KernelTable:
    """Raises AskedWrongly where the file is no such table."""
    damage, redactor = Damage(), Redactor()
    lines = lines_of(read_text(path, damage))
    at = _head(lines)
    if at is None:
        raise AskedWrongly(f"{path} is no table of a torch profiler")
    titles = _cells(lines[at])
    found = [row for line in lines[at + 1:] if (row := _row(titles, _cells(line), redactor))]
    _check(found, "".join(lines[at:]), damage)
    about = About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, damaged_count=damage.count,
                  damage=damage.sentences(), redacted_count=redactor.count)  # fmt: skip
    return KernelTable(about, "capture", any(row.name.endswith("...") for row in found), tuple(found))


def _head(lines: list[str]) -> int | None:
    for at, line in enumerate(lines[:HEAD_LINES]):
        cells = _cells(line)
        if cells[0] == "Name" and "# of Calls" in cells and any(DEVICE_TIME.match(cell) for cell in cells):
            return at
    return None


def _cells(line: str) -> list[str]:
    return BETWEEN.split(line.strip())


def _row(titles: list[str], cells: list[str], redactor: Redactor) -> KernelRow | None:
    """None for what is no row, did not run on the device, or is no kernel."""
    if len(cells) != len(titles):
        return None
    told = dict(zip(titles, cells, strict=True))
    device = next(title for title in titles if DEVICE_TIME.match(title))
    total_ns, host_ns = _ns(told[device]), _ns(told.get("CPU total", ""))
    if not total_ns or whole(total_ns) is None or host_ns or ANNOTATION.search(told["Name"]):
        return None
    mean = next((title for title in titles if title.endswith("time avg") and not title.startswith("CPU")), "")
    return KernelRow(name=redactor.text(told["Name"]), count=number(told["# of Calls"]), total_ns=whole(total_ns),
                     mean_ns=_ns(told.get(mean, "")))  # fmt: skip


def _ns(text: str) -> float | None:
    found = TIME.match(text)
    return float(found[1]) * UNIT_NS[found[2]] if found and number(found[1]) is not None else None


def _check(found: list[KernelRow], text: str, damage: Damage) -> None:
    told = TOTAL.search(text)
    total_ns = _ns(told[1]) if told else None
    if total_ns is None:
        damage.odd(CUT)
    elif sum(row.total_ns or 0 for row in found) > total_ns * ROUNDING_RATIO:
        damage.odd(TOO_MUCH)
