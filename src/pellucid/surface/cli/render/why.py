"""The answer of `why` → at most a screen: verdict, findings by gain, what is clear, what is blind.

    Four of five steps had requests waiting although KV was free: the cap of 16 running requests was reached.
    20261130-091500-a1b2 · engine 0.32.0 · tiny · 312 requests, 2,301 steps in 62 s

    1  queue.sequence_cap_binding        queue_time_ns −20% to −60%, end to end, in 5 of 5 windows
       The cap of 16 running requests was reached in 81% of steps while 92% of the KV cache was free
       evidence    capped_steps_count 1,864 · steps_count 2,301 · …
       try         --max-num-seqs 32 (now 16; restart) costs longer steps, so a longer ITL
       wrong if    the queue stays as long after the move
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import shorten as _shorten
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.core.units import counted, duration, percent
from pellucid.surface.cli.render.page import grid, number, value

BLIND_SHOWN = 4
REASON_WIDTH, COLLECT_WIDTH = 90, 60      # with its id, two lines a fact
_SCOPES = {"end_to_end": "end to end", "local": "of that part"}


def why(answer: Mapping[str, Any]) -> Group:
    return Group(*_parts(answer))


def _parts(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield verdict(answer)
    yield Text(subject(answer), style="dim")
    for place, finding in enumerate(answer["findings"], start=1):
        yield Text("")
        yield headline(place, finding)
        said = answer["verdict"].lower().startswith(finding["says"].lower())
        yield Padding(_body(finding, said), (0, 0, 0, 3))
    yield Text("")
    yield _rest(answer)


def verdict(answer: Mapping[str, Any]) -> Text:
    style = "bold red" if answer["findings"] else "bold green" if answer.get("healthy") else "bold yellow"
    return Text(answer["verdict"], style=style)


def subject(answer: Mapping[str, Any]) -> str:
    """Which recording this is about, in one line."""
    words = [str(answer.get("run") or "")]
    if engine := answer.get("engine"):
        words.append(f"{engine['name']} {engine['version']}".strip())
        if engine.get("model"):
            words.append(str(engine["model"]).rstrip("/").rsplit("/", 1)[-1])
    load = answer.get("load") or {}
    if load.get("captures_count"):
        took = "not told" if load["kernels_ns"] is None else duration(load["kernels_ns"])
        words.append(f"{counted(load['captured_steps_count'], 'captured steps')}, "
                     f"{counted(load['kernels_count'], 'kernels')} of {took}")  # fmt: skip
    if load.get("span_ns"):
        things = "steps" if load.get("pages_count") is None else "metrics pages"
        seen = load.get("pages_count") if things != "steps" else load["steps_count"]
        words.append(f"{counted(load['requests_count'], 'requests')}, {counted(seen, things)} "
                     f"in {duration(load['span_ns'])}")  # fmt: skip
    return " · ".join(w for w in words if w)


def headline(place: int, finding: Mapping[str, Any]) -> Table:
    """Rank and id on the left, the gain on the right."""
    line = Table.grid(expand=True, padding=(0, 1))
    line.add_column(no_wrap=True)
    line.add_column(justify="right", style="green", ratio=1)
    line.add_row(Text.assemble((f"{place}  ", "bold"), (finding["id"], "bold")), gain(finding))
    return line


def gain(finding: Mapping[str, Any]) -> str:
    claim = finding["gain"]
    sign = "−" if claim["better"] == "lower" else "+"
    low, high = percent(claim["low_ratio"]), percent(claim["high_ratio"])
    span = f"up to {sign}{high}" if not claim["low_ratio"] else f"{sign}{low} to {sign}{high}"
    return f"{claim['metric']} {span} {_SCOPES.get(claim['scope'], claim['scope'])}"


def _body(finding: Mapping[str, Any], said: bool) -> Group:
    """`said`: the verdict has this finding's sentence already."""
    table = grid(9)
    row = " · ".join(f"{k} {value(k, v)}" for k, v in finding["evidence"].items())
    table.add_row("evidence", f"{finding['persistence']['says']}: {row}")
    for move in finding["moves"]:
        table.add_row("try", _move(move))
    if not finding["moves"]:
        table.add_row("try", "no setting of this engine and version that we know of")
    table.add_row("wrong if", finding["falsified_by"])
    for symptom in finding["symptoms"]:
        table.add_row("explains", f"{symptom['id']}: {symptom['says']}")
    return Group(table) if said else Group(Text(f"{finding['says']}."), table)


def shorten(text: str, width: int) -> str:
    return _shorten(text, width, placeholder=" …")


def _move(move: Mapping[str, Any]) -> Text:
    now = "present value not seen" if move["current_text"] == "not known" else f"now {move['current_text']}"
    return Text.assemble((setting(move), "bold cyan"), f"  ({now}; {move['change']}). Cost: {move['cost']}")


def setting(move: Mapping[str, Any]) -> str:
    """What to type; for an engine whose words are not known, what to do in ours."""
    if move["setting"]:
        return str(move["setting"])
    ours = f"{move['direction']} {move['knob']} to {number(move['target'])} {move['unit']}"
    if move["unit"] == "switch":
        ours = f"turn {'on' if move['target'] else 'off'} {move['knob']}"
    elif move["unit"] == "version":
        ours = f"set {move['knob']} to {number(move['target'])}"
    return f"{ours} (our name for it: the engine was not seen, or is one whose settings we do not know)"


def _by_reason(rows: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What is said of several rules alike is shown once; rules that finer ones stood in for are not shown."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        if "instead_of" not in row:
            grouped.setdefault(row["says"], []).append(row["id"])
    return grouped


def _rest(answer: Mapping[str, Any]) -> Table:
    table = grid(12)
    if answer["clear"]:
        table.add_row("clear", " · ".join(c["id"] for c in answer["clear"]))
    for says, ids in _by_reason(answer.get("not_applicable") or []).items():
        table.add_row("not asked", f"{' · '.join(ids)}: {says}")
    for row in answer.get("broken") or []:
        table.add_row("broken", Text(f"{row['id']}: {row['says']} (a fault of ours, please report it)", style="red"))
    blind = answer["blind"]
    for fact in blind[:BLIND_SHOWN]:
        collect = f" → {shorten(fact['collect'], COLLECT_WIDTH)}" if fact["collect"] else ""
        reason = f"{fact['id']}: {shorten(fact['reason'], REASON_WIDTH)}"
        table.add_row("blind", Text.assemble(reason, (collect, "cyan")))
    if len(blind) > BLIND_SHOWN:
        table.add_row("", f"also {', '.join(f['id'] for f in blind[BLIND_SHOWN:])}; whole reasons: pellucid why --json")
    for note in answer.get("notes") or []:
        table.add_row("note", Text(note, style="yellow"))
    return table
