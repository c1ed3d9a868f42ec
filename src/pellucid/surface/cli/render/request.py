"""The answer of `why --request` → a screen: the verdict, then the latency span by span, with what each waited for.

    TTFT          420 ms
      frontend      2.0 ms
      queue         397 ms  ███████████████████
                            waited 381 ms for a place among the running requests
      prefill        20 ms  █
    E2E            1.2 s
      decode       780 ms
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import duration
from pellucid.surface.cli.render.page import MISSING, grid, heading, number

BAR = 20
WORST_SHOWN = 5
OTHERS_SHOWN = 4


def request(answer: Mapping[str, Any]) -> Group:
    return Group(*_parts(answer))


def _parts(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield heading(answer["verdict"])
    yield Text(_subject(answer), style="dim")
    yield Text("")
    before = {s["span"] for s in answer["ttft"]["spans"]}
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=16, no_wrap=True)
    table.add_column(width=8, justify="right", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    _spans(table, "TTFT", answer["ttft"]["total_ns"], answer["ttft"]["spans"])
    rest = [s for s in answer["e2e"]["spans"] if s["span"] not in before]
    _spans(table, "E2E", answer["e2e"]["total_ns"], rest)
    yield table
    if answer["gaps"]["gaps_count"]:
        yield Text("")
        yield _gaps(answer["gaps"])
    notes = grid(5)
    for note in answer["notes"]:
        notes.add_row("note", Text(note, style="yellow"))
    yield notes


def _subject(answer: Mapping[str, Any]) -> str:
    r = answer["request"]
    end = f" ({r['finish_reason']})" if r["finish_reason"] else ""
    words = [
        str(answer["run"]), str(r["request_id"] or r["internal_id"]), f"{r['state']}{end}",
        f"{_count(r['prompt_tokens'])} prompt tokens, {_count(r['cached_tokens'])} of them cached",
        f"{_count(r['output_tokens'])} output tokens",
    ]  # fmt: skip
    if r["preemptions_count"]:
        words.append(f"{r['preemptions_count']} preemptions, {_count(r['recomputed_tokens'])} tokens computed again")
    if r["task"]:
        words.append(f"task {r['task']}")
    return " · ".join(words)


def _count(cell: int | None) -> str:
    return MISSING if cell is None else number(cell)


def _spans(table: Table, name: str, total_ns: int | None, spans: Sequence[Mapping[str, Any]]) -> None:
    table.add_row(Text(name, style="bold"), Text(MISSING if total_ns is None else duration(total_ns), style="bold"), "")
    for span in spans:
        lasted_ns = span["duration_ns"]
        if lasted_ns is None:
            do = f" → {span['collect']}" if span["collect"] else ""
            table.add_row(f"  {span['span']}", Text("blind", style="dim"), Text(f"{span['reason']}{do}", style="dim"))
            continue
        table.add_row(f"  {span['span']}", duration(lasted_ns), Text(bar(lasted_ns, total_ns), style="cyan"))
        for part in span["parts"]:
            table.add_row("", "", _with_others(part))


def bar(part: int, whole: int | None) -> str:
    """A share as a bar, at least a sliver."""
    if not whole or part <= 0:
        return ""
    return "█" * round(BAR * min(1.0, part / whole)) or "▏"


def _with_others(part: Mapping[str, Any]) -> str:
    """The sentence, and the requests it is about if it does not name them itself."""
    says, ids = str(part["says"]), part["request_ids"]
    if not ids or ids[0] in says:
        return says
    more = f" and {len(ids) - OTHERS_SHOWN} more" if len(ids) > OTHERS_SHOWN else ""
    return f"{says} ({', '.join(ids[:OTHERS_SHOWN])}{more})"


def _gaps(gaps: Mapping[str, Any]) -> Table:
    table = grid(11)
    table.add_row("gaps", f"{number(gaps['gaps_count'])} between tokens: {duration(gaps['p50_ns'])} in the median, "
                          f"{duration(gaps['max_ns'])} at worst")  # fmt: skip
    causes = [f"{c['cause']} {duration(c['total_ns'])} in {number(c['gaps_count'])}" for c in gaps["by_cause"]]
    table.add_row("by cause", " · ".join(causes))
    for gap in gaps["worst"][:WORST_SHOWN]:
        table.add_row(f"token {gap['token']}", _with_others(gap))
    return table
