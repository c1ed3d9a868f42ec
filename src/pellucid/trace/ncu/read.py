"""CSV pages of Nsight Compute → Launches.

    details page, a row for each metric of each execution:
        "ID","Kernel Name",…,"Section Name","Metric Name","Metric Unit","Metric Value"
        "0","gemv<…>",…,"GPU Speed Of Light Throughput","DRAM Frequency","Ghz","13.77"
    raw page, a row for each execution, units in the row under the names:
        "ID","Kernel Name",…,"dram__bytes_read.sum","gpu__time_duration.sum"
        "","",…,"Mbyte","us"
        "0","gemv<…>",…,"2.33","1,234.5"

Names of metrics stay as they are, those of generations that are not out yet too. Multiples of byte, second and hertz
become byte, ns and hz; every other unit stays as it is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.trace.redact import Redactor
from pellucid.trace.tables.text import lines_of, number, read_text, rows, whole
from pellucid.trace.timeline import About, Damage, Launch, Launches, Metric

FORMAT = "ncu_csv"
ABOUT_LAUNCH = {"ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
                "Grid Size", "Device", "CC", "Kernel Time", "Context ID", "Stream ID"}  # fmt: skip
LONG = {"Metric Name", "Metric Unit", "Metric Value"}
POWERS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
# A multiple of a unit, alone or in front of a slash: Kbyte/block, Gbyte/s, usecond, Ghz. Prefixes are decimal.
SCALED = re.compile(r"^([numkKMGTP]?)(byte|hz|s|sec|second)(/.*)?$")
TIMES = ("s", "sec", "second")
HEAD_LINES = 400        # chosen: what ncu and the program may print before the table
EXTENT = re.compile(r"\d+")
NO_LAUNCH = "a row has no execution's number"


def table_at(lines: list[str]) -> int | None:
    """The line with the names of the columns; None where there is none."""
    for at, line in enumerate(lines[:HEAD_LINES]):
        names = {name.strip().strip('"') for name in line.strip().split(",")}
        if {"ID", "Kernel Name"} <= names and (names >= LONG or any("__" in name for name in names)):
            return at
    return None


def read(path: Path) -> Launches:
    """Raises AskedWrongly where the file is no such page."""
    damage, redactor = Damage(), Redactor()
    lines = lines_of(read_text(path, damage))
    at = table_at(lines)
    if at is None:
        raise AskedWrongly(f"{path} has no table of Nsight Compute")
    found: dict[str, tuple[Mapping[str, str], list[Metric]]] = {}
    units: Mapping[str, str] = {}
    for row in rows(lines[at:], damage):
        number_text = row.get("ID", "").strip()
        if not number_text.isdigit():
            if not number_text and not units and not found:
                units = row
            else:
                damage.lost(NO_LAUNCH)
            continue
        first, metrics = found.setdefault(number_text, (row, []))
        metrics.extend(_long(row) if row.keys() >= LONG else _wide(row, units))
        redactor.dropped(sum(bool(row.get(name)) for name in ("Process Name", "Host Name")) if first is row else 0)
    launches = tuple(_launch(row, metrics, redactor) for row, metrics in found.values())
    return Launches(About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, damaged_count=damage.count,
                          damage=damage.sentences(), redacted_count=redactor.count), launches)  # fmt: skip


def _launch(row: Mapping[str, str], metrics: list[Metric], redactor: Redactor) -> Launch:
    return Launch(
        number=int(row["ID"]), name=redactor.text(row.get("Kernel Name", "")), device=_whole(row.get("Device")),
        stream=_whole(row.get("Stream") or row.get("Stream ID")), grid=_extent(row.get("Grid Size")),
        block=_extent(row.get("Block Size")), compute_capability=row.get("CC") or None, metrics=tuple(metrics),
    )  # fmt: skip


def _long(row: Mapping[str, str]) -> list[Metric]:
    """One metric; none where the row is a rule's advice."""
    name = row.get("Metric Name", "").strip()
    if not name:
        return []
    return [metric(row.get("Section Name") or None, name, row.get("Metric Unit", ""), row.get("Metric Value", ""))]


def _wide(row: Mapping[str, str], units: Mapping[str, str]) -> list[Metric]:
    return [metric(None, name, units.get(name, ""), value) for name, value in row.items()
            if name not in ABOUT_LAUNCH and value.strip()]  # fmt: skip


def metric(section: str | None, name: str, unit: str, value: str) -> Metric:
    """One value in its base unit; a text where it is no number."""
    found = number(value)
    if found is None:
        return Metric(section, name, unit, None, value)
    scaled, factor = base_unit(unit.strip())
    return Metric(section, name, scaled, found * factor, None)


def base_unit(unit: str) -> tuple[str, float]:
    """(unit, what to multiply by): byte, ns and hz of their multiples.

    base_unit("Kbyte/block") == ("byte/block", 1000.0); base_unit("us") == ("ns", 1000.0); base_unit("warp") unchanged
    """
    found = SCALED.match(unit.replace("Hz", "hz"))
    if not found:
        return unit, 1.0
    what, per = found[2], (found[3] or "").replace("/second", "/s")
    if what in TIMES:
        return "ns" + per, 10.0 ** (POWERS[found[1]] + 9)
    return what + per, 10.0 ** POWERS[found[1]]


def _whole(text: str | None) -> int | None:
    return whole(number(text))


def _extent(text: str | None) -> tuple[int, int, int] | None:
    """`(224, 1, 1)`"""
    found = [int(n) for n in EXTENT.findall((text or "").replace(",", " "))]
    return (found[0], found[1], found[2]) if len(found) == 3 else None
