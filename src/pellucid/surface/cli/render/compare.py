"""A comparison of captures → what each side is, and a table for each phase: the step, classes, kernels.

    a  before · NVIDIA H200 · 11 decode steps of 54.3 requests, graph full
    b  after · NVIDIA H200 · 12 decode steps of 54.1 requests, graph full

    decode, per step           count a  count b        a        b  difference  of the step
    step                             –        –    18 ms    16 ms     −2.0 ms         −11%  changed
    moe_gemm                        96       96    13 ms    11 ms     −1.9 ms         −10%  changed
      fused_moe_kernel              96       96    13 ms    11 ms     −1.9 ms         −10%  changed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import counted, duration, percent
from pellucid.surface.cli.render.page import MISSING, number

NAME_WIDTH = 46
SAYS = {
    "step": "step, first to last kernel", "idle": "idle in it", "before": "idle before it",
    "total": "kernels, copies not counted",
}  # fmt: skip
Row = Mapping[str, Any]


def comparison(answer: Mapping[str, Any], limit: int | None) -> Group:
    return Group(*_parts(answer, limit))


def _parts(answer: Mapping[str, Any], limit: int | None) -> Iterator[RenderableType]:
    phases = {row["phase"] for row in answer["rows"]}
    for letter in ("a", "b"):
        yield Text(f"{letter}  {side(answer['head'][letter], phases)}", style="dim")
    for phase, rows in groupby(answer["rows"], key=lambda row: row["phase"]):
        yield Text("")
        yield table(_title(phase, answer["head"]["per"]), list(rows), limit)


def side(about: Mapping[str, Any], phases: set[str | None]) -> str:
    """What was captured, on what, and the steps of it that are compared."""
    model = str(about["model"]).rstrip("/").rsplit("/", 1)[-1] if about["model"] else None
    words = [str(about["asked"]).rsplit("/", 1)[-1], about["device_name"], model]
    words += [_steps(row) for row in about["phases"] if row["phase"] in phases]
    return " · ".join([w for w in words if w] + [counted(about["kernels_count"], "kernels")])


def _steps(row: Row) -> str:
    batch = []
    if row["decode_requests_count"]:
        batch.append(f"{_mean(row['decode_requests_count'])} decoding requests")
    if row["prefill_tokens"]:
        batch.append(f"{_mean(row['prefill_tokens'])} prompt tokens")
    graph = f", graph {row['graph']}" if row["graph"] else ""
    steps = f"{row['steps_count']:,} {_phase(row['phase'])} step{'s' if row['steps_count'] > 1 else ''}"
    return f"{steps}{' of ' if batch else ''}{' and '.join(batch)}{graph}"


def _mean(value: float) -> str:
    return number(round(value) if value >= 100 else value)


def _phase(phase: str | None) -> str:
    return phase or "phase-not-known"


def _title(phase: str | None, per: str) -> str:
    return "whole traces" if per == "trace" else f"{_phase(phase)}, per step"


def table(title: str, rows: Sequence[Row], limit: int | None) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    shown.add_column(title, no_wrap=True)
    of = "of a's kernels" if title.startswith("whole") else "of the step"
    for name in ("count a", "count b", "a", "b", "difference", of):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    kernels = [row for row in rows if row["part"] == "kernel"]
    hidden = kernels[limit:] if limit else []
    for row in [row for row in rows if row["part"] != "kernel"] + (kernels[:limit] if limit else kernels):
        shown.add_row(*_cells(row), style=_style(row))
    if hidden:
        changed = sum(row["state"] == "changed" for row in hidden)
        shown.add_row(f"  {len(hidden):,} more, {changed:,} of them changed; --limit 0 shows all", style="dim")
    return shown


def _cells(row: Row) -> list[str]:
    counts = [MISSING if row[f"{s}_kernels_count"] is None else number(row[f"{s}_kernels_count"]) for s in "ab"]
    times = [MISSING if row[f"{s}_ns"] is None else duration(row[f"{s}_ns"]) for s in "ab"]
    ratio = row["difference_ratio"]
    return [_name(row), *counts, *times, signed(row["difference_ns"], duration), signed(ratio, percent), _says(row)]


def _name(row: Row) -> str:
    if row["part"] != "kernel":
        return SAYS.get(row["part"]) or str(row["class"])
    return f"  {cut(row['name'])}" + (f"\n  → {cut(row['replaced_by'])}" if row["replaced_by"] else "")


def _says(row: Row) -> str:
    told = [row["match"]] if row["match"] in ("added", "removed") else []
    told += [f"replaced, same {row['match']}"] if row["replaced_by"] else []
    return ", ".join([*told, *([row["state"]] if row["state"] != "not judged" else [])])


def _style(row: Row) -> str | None:
    if row["state"] in ("same", "within the spread"):
        return "dim"
    if row["state"] != "changed":
        return None
    return "red" if row["difference_ns"] > 0 else "green"


def signed(value: float | None, spell: Any) -> str:
    if value is None:
        return MISSING
    return f"{'−' if value < 0 else '+' if value > 0 else ''}{spell(abs(value))}"


def cut(name: str) -> str:
    """Beginning and end of a long name: templates differ at their ends."""
    name = name.removeprefix("void ")
    if len(name) <= NAME_WIDTH:
        return name
    end = NAME_WIDTH // 3
    return f"{name[: NAME_WIDTH - end - 1]}…{name[-end:]}"
