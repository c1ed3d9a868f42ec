"""The observation matrix → four groups of rows, or a few lines for `top`.

    Prefill and decode                   now  baseline  from        state
      ttft_p50_ns                      1.7 s    450 ms  catalogue   bad     3.8×
      prefill_tokens_per_s               107         –              –
      not judged  ttft_p95_ns: taken over 6 ttft_requests, and it takes 20
      blind       evicted_age_p50_ns: no row of kv_residency was recorded → run the engine with the probe
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import duration, unit_of
from pellucid.surface.cli.render.page import MISSING, grid, heading, value

AREAS = {
    "prefill_decode": "Prefill and decode", "kv_cache": "KV cache", "moe_speculation": "MoE and speculation",
    "hardware": "Hardware",
}  # fmt: skip
_SHORT = {"prefill_decode": "prefill", "kv_cache": "KV cache", "moe_speculation": "MoE, drafts", "hardware": "hardware"}
_FROM = {"own_past": "own past", "catalogue": "catalogue", None: ""}
_STATES = {"ok": "green", "watch": "yellow", "bad": "bold red", "unjudged": "dim"}
_GROUPED = {"unjudged": "not judged", "blind": "blind", "not_applicable": "none here"}   # below, with the reason
Rows = list[Mapping[str, Any]]


def matrix(answer: Mapping[str, Any]) -> Group:
    return Group(*_parts(answer))


def _parts(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(f"{answer['run']} · {_window(answer['window'])}", style="dim")
    width = max(len(row["metric"]) for row in answer["rows"]) + 2
    for area, title in AREAS.items():
        rows = [row for row in answer["rows"] if row["area"] == area]
        yield Text("")
        yield _table(title, [row for row in rows if row["value"] is not None], width)
        yield _reasons(rows)
    yield Text("")
    yield Text("–  not judged: neither way is worse, or the reason is below the rows", style="dim")
    if any(row["from_page"] for row in answer["rows"]):
        yield Text("page  from the engine's metrics page; a percentile is the upper bound of its bucket", style="dim")
    for note in answer["notes"]:
        yield Text(note, style="yellow")


def _window(window: Mapping[str, Any]) -> str:
    past, healthy = window["past_windows_count"], window["healthy_windows_count"]
    start_ns, end_ns = window["start_ns"], window["end_ns"]
    if end_ns is None:
        return "no step and no metrics page was recorded"
    lasted = "the whole run" if start_ns is None else f"the last {duration(end_ns - start_ns)}"
    return f"{lasted}, beside its own past: {healthy} of {past} windows before it were healthy"


def _table(title: str, rows: Rows, width: int) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=width, no_wrap=True)
    table.add_column(width=9, justify="right", no_wrap=True)
    table.add_column(width=9, justify="right", no_wrap=True)
    table.add_column(width=10, no_wrap=True, style="dim")
    table.add_column(width=6, no_wrap=True)
    table.add_column(no_wrap=True)
    head = ("now", "baseline", " from", "state", "") if rows else ("",) * 5
    table.add_row(heading(title), *(Text(h, style="dim") for h in head))
    for row in rows:
        table.add_row(
            f"  {row['metric']}", cell(row["metric"], row["value"]), cell(row["metric"], row["baseline"]),
            f" {_FROM[row['baseline_from']]}", Text(_state(row), style=_STATES[row["state"]]), Text(_note(row)),
        )  # fmt: skip
    return table


def _state(row: Mapping[str, Any]) -> str:
    return MISSING if row["state"] == "unjudged" else str(row["state"])


def _worse(row: Mapping[str, Any]) -> str:
    return f"{row['times_worse']:.1f}×" if row["state"] in ("watch", "bad") else ""


def _note(row: Mapping[str, Any]) -> str:
    return " ".join(word for word in (_worse(row), "page" if row["from_page"] else "") if word)


def _reasons(rows: Rows) -> Table:
    """Each reason once, with the rows it is about."""
    table = grid(12)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row["state"] in _GROUPED and not (row["state"] == "unjudged" and row["worse"] == "neither"):
            groups.setdefault((row["state"], row["says"], row["collect"]), []).append(row["metric"])
    for (state, says, collect), metrics in groups.items():
        do = (f" → {collect}", "cyan") if collect else ""
        table.add_row(f"  {_GROUPED[state]}", Text.assemble(f"{', '.join(metrics)}: {says}", do))
    return table


def cell(metric: str, figure: float | None) -> str:
    """With the unit where `value` leaves it out: 312 W, 71 °C."""
    unit = unit_of(metric)
    shown = value(metric, figure)
    return f"{shown} {unit}" if figure is not None and unit in ("W", "J", "°C") else shown


def compact(answer: Mapping[str, Any]) -> Table:
    """A few lines: each value by its name without the unit, (its baseline), and by how much it is worse."""
    table = grid(11)
    for area in AREAS:
        rows = [row for row in answer["rows"] if row["area"] == area]
        seen = [row for row in rows if row["value"] is not None]
        line = Text(" · ").join(_item(row) for row in seen)
        blind = sum(row["state"] == "blind" for row in rows)
        rest = [f"{blind} blind"] if blind else []
        rest += [f"{len(rows) - len(seen) - blind} with nothing to see"] if len(rows) > len(seen) + blind else []
        if rest:
            line.append(f"{' · ' if seen else ''}{', '.join(rest)}", style="dim")
        table.add_row(_SHORT[area], line)
    table.add_row("", Text("(baseline) from its own healthy past; * from the catalogue", style="dim"))
    return table


def _item(row: Mapping[str, Any]) -> Text:
    unit = row["metric"].rsplit("_", 1)[-1]
    name = row["metric"].removesuffix("_per_s") if unit == "s" else row["metric"].removesuffix(f"_{unit}")
    figure = f"{cell(row['metric'], row['value'])}{'/s' if unit == 's' else ''}"
    judged = row["state"] != "unjudged"
    star = "*" if row["baseline_from"] == "catalogue" else ""
    beside = f" ({cell(row['metric'], row['baseline'])}{star})" if judged else ""
    worse = f" {row['state']} {_worse(row)}" if _worse(row) else ""
    return Text.assemble(f"{name} ", (f"{figure}{beside}{worse}", _STATES[row["state"]] if judged else ""))
