"""Tables of kernels that people publish: a name, how often, how long or what share → a KernelTable.

    role,kernel,grid,block,calls_per_step,time_us_per_step,…      Routed MoE,Marlin,396x1x1,128x1x1,300.0,28036.4,…
    pct_of_gpu⇥calls⇥author_category⇥kernel                       15.05⇥1216⇥moe_comm⇥void deep_ep::…

What a column is, its name says: the first of each list below that is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.trace.redact import Redactor
from pellucid.trace.tables.text import lines_of, number, read_text, rows, whole
from pellucid.trace.timeline import About, Damage, KernelRow, KernelTable

FORMAT = "kernel_table"
NAMES = ("kernel", "kernel_name", "name")
COUNTS = ("calls_per_step", "calls", "count", "instances")
ROLES = ("role", "author_category", "category", "class")
SHARES = ("pct_of_gpu", "percent", "pct", "share_pct", "time_pct")
UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
TOTAL = re.compile(r"^(?:total_|time_|total_time_|gpu_time_)(ns|us|ms|s)(_per_step)?$")
EXTENT = re.compile(r"^\(?(\d+)\s*[x,]\s*(\d+)\s*[x,]\s*(\d+)\)?$")
NOTHING_TOLD = "a row has neither a time nor a share"


def fits(first_line: str) -> bool:
    titles = set(_titles(first_line))
    measured = any(TOTAL.match(title) for title in titles) or titles & {*SHARES}
    return bool(titles & {*NAMES} and measured and titles & {*COUNTS})


def read(path: Path) -> KernelTable:
    """Raises AskedWrongly where the file is no such table."""
    damage, redactor = Damage(), Redactor()
    lines = lines_of(read_text(path, damage))
    if not lines or not fits(lines[0]):
        raise AskedWrongly(f"{path} is no table of kernels")
    titles = _titles(lines[0])
    total = next((title for title in titles if TOTAL.match(title)), None)
    found = []
    for row in rows(lines, damage, _separator(lines[0])):
        made = _row(row, total, redactor)
        if made.total_ns is None and made.share_ratio is None:
            damage.lost(NOTHING_TOLD)
        else:
            found.append(made)
    about = About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, damaged_count=damage.count,
                  damage=damage.sentences(), redacted_count=redactor.count)  # fmt: skip
    per = "step" if total and total.endswith("_per_step") else "capture"
    return KernelTable(about, per, any(row.name.endswith("...") for row in found), tuple(found))


def _separator(line: str) -> str:
    return "\t" if "\t" in line else ","


def _titles(line: str) -> list[str]:
    return [title.strip().strip('"') for title in line.strip("\r\n\ufeff").split(_separator(line))]


def _row(row: Mapping[str, str], total: str | None, redactor: Redactor) -> KernelRow:
    share = number(_first(row, SHARES))
    return KernelRow(
        name=redactor.text(_first(row, NAMES) or ""), count=number(_first(row, COUNTS)),
        total_ns=_ns(row, total), share_ratio=None if share is None else share / 100,
        mean_ns=_us(row, "mean_call_us"), min_ns=_us(row, "min_call_us"), max_ns=_us(row, "max_call_us"),
        median_ns=_us(row, "p50_call_us"), role=_first(row, ROLES) or None,
        grid=_extent(row.get("grid")), block=_extent(row.get("block")),
    )  # fmt: skip


def _first(row: Mapping[str, str], titles: Iterable[str]) -> str | None:
    return next((row[title] for title in titles if title in row), None)


def _ns(row: Mapping[str, str], title: str | None) -> int | None:
    unit = TOTAL.match(title) if title else None
    value = number(row.get(title)) if title else None
    return None if value is None or unit is None else whole(value * UNIT_NS[unit[1]])


def _us(row: Mapping[str, str], title: str) -> float | None:
    value = number(row.get(title))
    return None if value is None else value * UNIT_NS["us"]


def _extent(text: str | None) -> tuple[int, int, int] | None:
    found = EXTENT.match((text or "").strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
