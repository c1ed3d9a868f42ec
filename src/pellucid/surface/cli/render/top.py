"""One look of `top` → a screen: verdict, findings, load, last requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import counted, duration, percent
from pellucid.surface.cli.render.matrix import compact
from pellucid.surface.cli.render.page import MISSING, grid, number
from pellucid.surface.cli.render.rows import table
from pellucid.surface.cli.render.why import headline, setting, verdict

_REASONS = (
    ("sequence cap", "waiting_sequence_cap_mean_count"), ("token budget", "waiting_token_budget_mean_count"),
    ("KV blocks", "waiting_kv_mean_count"), ("deferred", "waiting_deferred_mean_count"),
)  # fmt: skip
_REQUEST_COLUMNS = (
    "request_id", "prompt_tokens", "output_tokens", "ttft_ns", "itl_mean_ns", "e2e_ns", "finish_reason",
)  # fmt: skip
_STALE_NS = 5_000_000_000


def top(look: Mapping[str, Any]) -> Group:
    return Group(*_parts(look))


def _parts(look: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(_subject(look), style="dim")
    yield verdict(look["why"])
    for place, finding in enumerate(look["why"]["findings"], start=1):
        yield headline(place, finding)
        for move in finding["moves"][:1]:
            yield Text(f"   try {setting(move)}", style="cyan")
    yield Text("")
    if look["matrix"]:
        yield compact(look["matrix"])
        return
    yield _load(look["load"]) if look["load"] else Text(_no_load(look))
    yield Text("")
    if look["requests"]:
        yield table(look["requests"], _REQUEST_COLUMNS, (), None)
    else:
        yield Text("no request has ended yet", style="dim")


def _subject(look: Mapping[str, Any]) -> str:
    age = look["age_ns"]
    if look["state"] == "recording":
        when = "recording" if age is None or age < _STALE_NS else f"recording, silent for {duration(age)}"
    else:
        when = f"{look['state']}, ended {duration(age)} ago" if age is not None else str(look["state"])
    engine = f"{look['engine']} {look['engine_version'] or ''}".strip() if look["engine"] else "engine not seen yet"
    model = str(look["model"] or MISSING).rstrip("/").rsplit("/", 1)[-1]
    return (f"{look['run_id']} · {when} · {engine} · {model} · "
            f"{counted(look['requests_count'], 'requests')}, {counted(look['steps_count'], 'steps')}")  # fmt: skip


def _no_load(look: Mapping[str, Any]) -> str:
    if look["steps_count"]:
        return f"its {counted(look['steps_count'], 'steps')} do not read, or have expired: see pellucid why"
    return "no step yet: the engine has computed nothing"


def _load(load: Mapping[str, Any]) -> Table:
    """The last seconds; a figure nobody saw is a dash."""
    rows = grid(11)
    cap = load["sequence_cap_count"]
    rows.add_row("running", f"{_or_dash(load['running_mean_count'])}" + (f" of at most {cap:,}" if cap else ""))
    reasons = [f"{name} {number(load[key])}" for name, key in _REASONS if load[key]]
    why = f"  ({' · '.join(reasons)})" if reasons else ""
    rows.add_row("waiting", f"{_or_dash(load['waiting_mean_count'])}{why}")
    rows.add_row("tokens/s", f"{_or_dash(load['output_tokens_per_s'])} out · {_or_dash(load['prefill_tokens_per_s'])} "
                             f"prefill · {_or_dash(load['recomputed_tokens_per_s'])} computed again")  # fmt: skip
    used, total = load["kv_used_blocks_count"], load["kv_total_blocks_count"]
    kv = f"{percent(used / total)} of {total:,} blocks" if used is not None and total else MISSING
    rows.add_row("KV", f"{kv} · {_or_dash(load['preempted_count'])} preemptions")
    rows.add_row("steps/s", f"{_or_dash(load['steps_per_s'])}  (all over the last {duration(load['span_ns'])})")
    return rows


def _or_dash(cell: float | None) -> str:
    return MISSING if cell is None else number(cell)
