"""The doctor's answer → a page: here · engine · visible · blind · cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from pellucid.core.units import duration, percent, size
from pellucid.surface.cli.render.page import grid, heading, value

_MARKS = {"ok": ("ok", "green"), "missing": ("MISSING", "red"), "blind": ("blind", "yellow")}
BUDGET = ("The budget is for the benchmark's load, 256 running (bench/probe_cost.py); "
          "this figure belongs to the load it was measured at")  # fmt: skip


def doctor(answer: Mapping[str, Any]) -> Group:
    return Group(*_parts(answer))


def ceilings(kept: Mapping[str, Any]) -> Group:
    """What `doctor --ceilings` measured."""
    table = grid(22)
    for name, per_s in kept["rates"].items():
        figure = f"{per_s / 1e9:,.0f} GB/s" if name.endswith("_bytes_per_s") else f"{per_s / 1e12:,.1f} TFLOP/s"
        table.add_row(f"  {name.removesuffix('_per_s')}", f"{figure}, batches within {percent(kept['spread'][name])}")
    for name, why in kept["missing"].items():
        table.add_row(f"  {name.removesuffix('_per_s')}", Text.assemble(("not measured", "yellow"), f": {why}"))
    how = ", ".join(f"{key} {told}" for key, told in kept["conditions"].items() if told is not None)
    return Group(heading(kept["device"]), table, Text(f"  {how}", "dim"))


def _parts(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield heading("Here")
    here = grid()
    for check in answer["here"]:
        mark, style = _MARKS[check["state"]]
        do = f" → {check['do']}" if check["do"] else ""
        here.add_row(f"  {check['check']}", Text.assemble((mark, style), f"  {check['says']}{do}"))
    yield here
    if answer["engine"]:
        yield from _engine(answer["engine"])
    roles: dict[str, list[str]] = {}
    for fact in answer["visible"]:
        roles.setdefault(fact["role"] or "", []).append(fact["id"])
    if roles:
        yield heading(f"\nVisible ({len(answer['visible'])})")
        yield _listed({role or "engine": ", ".join(ids) for role, ids in roles.items()}, 14)
    if answer["blind"]:
        yield heading(f"\nBlind ({len(answer['blind'])})")
        yield _blind(answer["blind"])
    if answer["cost"]:
        yield heading("\nCost")
        yield _listed(dict(_cost(answer["cost"])), 22)


def _engine(engine: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield heading(f"\nEngine, from {engine['from']}")
    if engine["processes"]:
        yield _listed({
            p["process"]: f"{p['role']} · {p['engine'] or 'engine unknown'} {p['engine_version'] or ''}"
            + (f" · probe off: {p['reason']}" if p["state"] == "off" else "")
            for p in engine["processes"]
        }, 22)  # fmt: skip


def _listed(rows: Mapping[str, str], width: int) -> RenderableType:
    table = grid(width)
    for label, text in rows.items():
        table.add_row(f"  {label}", text)
    return table


def _blind(facts: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Facts that are blind for one reason share its line."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for fact in facts:
        reasons.setdefault((fact["reason"], fact["collect"]), []).append(fact["id"])
    table = grid(28)
    for (reason, collect), ids in reasons.items():
        do = f" → {collect}" if collect else ""
        table.add_row("\n".join(f"  {i}" for i in ids), Text.assemble(reason, (do, "cyan")))
    return table


def _cost(cost: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was not measured is left out by name, not shown as nothing."""
    steps, disk = cost["steps"], cost["disk"]
    if steps:
        yield "per step", (f"{duration(steps['probe_mean_ns'])} in our hooks on average, "
                           f"{duration(steps['probe_p99_ns'])} at p99, with "
                           f"{value('', steps['running_mean_count'])} requests running. {BUDGET}")  # fmt: skip
    else:
        yield "per step", "not measured: no step says what our hooks took"
    for p in cost["processes"]:
        faults = f", {p['probe_errors_count']} errors in hooks" if p["probe_errors_count"] else ""
        lost = f", {p['ring_dropped_count']:,} records dropped" if p["ring_dropped_count"] else ""
        share = "share unknown" if p["probe_ratio"] is None else f"{percent(p['probe_ratio'])} of the time in our hooks"
        yield p["process"], f"{share}{faults}{lost}"
    if disk["per_day_bytes"] is None:
        yield "disk", f"{size(disk['size_bytes'])} so far; too short to say how much a day"
    else:
        yield "disk", (f"{disk['per_day_bytes'] / 1e9:.2f} GB a day, {disk['basis']} "
                       f"({size(disk['size_bytes'])} in {duration(disk['duration_ns'])})")  # fmt: skip
