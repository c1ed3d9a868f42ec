"""Steps of engine cores → a track for each core, counters beside it, and the beginnings of arrows to kernels.

    steps of engine_core-24911   |            step 7: decode             |
                                 |schedule|       execute       |update|
                                           `----- runs -----> first kernel of the step, where it was captured
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.store.read import RunReader
from pellucid.verbs.export.event import COLOURS, Event, seen, us
from pellucid.verbs.export.pages import pages
from pellucid.verbs.export.span import Span
from pellucid.verbs.export.tracks import Tracks

TOLD = ("step", "running_count", "waiting_count", "scheduled_tokens", "prefill_tokens", "decode_tokens",
        "recomputed_tokens", "draft_tokens", "accepted_tokens", "output_tokens", "prefill_requests_count",
        "decode_requests_count", "preempted_count", "kv_used_blocks_count", "graph_mode", "host_gap_ns", "worker_ns",
        "device_ns")  # fmt: skip
STEPS = f"""
    SELECT process, dp_rank, start_ns, end_ns, schedule_ns, execute_ns, update_ns, kv_total_blocks_count,
           {', '.join(TOLD)}
    FROM steps WHERE end_ns >= $lo AND start_ns <= $hi ORDER BY start_ns"""
# Counter → its columns. One graph for each column.
COUNTERS = {
    "requests": ("running_count", "waiting_count"),
    "KV blocks": ("kv_used_blocks_count",),
    "tokens per step": ("prefill_tokens", "decode_tokens", "recomputed_tokens"),
}
Captured = tuple[str, str, int, int | None]     # capture, process, step, device


@dataclass(slots=True)
class Arrows:
    """From steps to the kernels they ran: an arrow begins in the step and ends at its first kernel."""

    wanted: Mapping[int, list[tuple[int | None, Captured]]] = field(default_factory=dict)   # by step, with dp_rank
    begun: dict[Captured, int] = field(default_factory=dict)

    def of(self, step: int, dp_rank: int | None) -> Iterator[int]:
        """Numbers of the arrows that begin in a step of that engine core; odd ones, those of requests are even."""
        for rank, key in self.wanted.get(step, []):
            if rank is None or dp_rank is None or rank == dp_rank:
                yield self.begun.setdefault(key, 2 * len(self.begun) + 1)


@dataclass(slots=True)
class Shown:
    """Where each step is shown, for arrows that end there: a moment and a track for each, 16 bytes a step."""

    starts: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    tracks: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))

    def add(self, process: str, start_ns: int, tid: int) -> None:
        self.starts[process].append(start_ns)
        self.tracks[process].append(tid)

    def find(self, process: str, start_ns: int) -> int | None:
        """The track of the step that began just then."""
        if process not in self.starts:
            return None
        place = bisect_left(self.starts[process], start_ns)
        found = place < len(self.starts[process]) and self.starts[process][place] == start_ns
        return self.tracks[process][place] if found else None


def arrows(run: RunReader, span: Span) -> Arrows:
    """Of captures of a running engine; steps in a file have numbers of their own."""
    wanted: dict[int, list[tuple[int | None, Captured]]] = defaultdict(list)
    for row in run.rows("SELECT DISTINCT capture, process, step, device_index FROM capture_steps ORDER BY ALL"):
        captured = span.captures.get((row["capture"], row["process"]))
        if captured and captured.row["live"]:
            wanted[row["step"]].append((captured.row["dp_rank"], tuple(row.values())))
    return Arrows(wanted)


def group(process: str) -> str:
    return f"steps of {process}"


def steps(run: RunReader, span: Span, tracks: Tracks, to_kernels: Arrows, shown: Shown) -> Iterator[Event]:
    for row in pages(run, STEPS, span.bounds()):
        pid = tracks.group(group(row["process"]))
        tid = tracks.lane(pid, "steps", row["start_ns"], row["end_ns"])
        shown.add(row["process"], row["start_ns"], tid)
        yield _slice(span, row, pid, tid)
        yield from _parts(span, row, pid, tid)
        yield from _counters(span, row, pid)
        at_ns = min(row["start_ns"] + (row["schedule_ns"] or 0), row["end_ns"])
        for number in to_kernels.of(row["step"], row["dp_rank"]):
            yield Event("s", "runs", pid, tid, us(span.at(at_ns)), cat="runs", id=number)


def phase(row: Mapping[str, Any]) -> str:
    """By what was computed; a step that did neither has drafts or discarded positions only."""
    prefill, decode = row["prefill_requests_count"], row["decode_requests_count"]
    if prefill is None or decode is None:
        return "step"
    return "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else "other"


def _slice(span: Span, row: dict[str, Any], pid: int, tid: int) -> Event:
    what, lasted_ns = phase(row), row["end_ns"] - row["start_ns"]
    return Event("X", f"step {row['step']}: {what}", pid, tid, us(span.at(row["start_ns"])), us(lasted_ns), "step",
                 COLOURS.get(what, "generic_work"), args=seen(row, *TOLD))  # fmt: skip


def _parts(span: Span, row: dict[str, Any], pid: int, tid: int) -> Iterator[Event]:
    """From both ends: what was not seen is left open in the middle."""
    start, end = row["start_ns"], row["end_ns"]
    scheduled = min(start + (row["schedule_ns"] or 0), end)
    executed = min(scheduled + (row["execute_ns"] or 0), end)
    updating = max(end - (row["update_ns"] or 0), executed)
    for name, a, b in (("schedule", start, scheduled), ("execute", scheduled, executed), ("update", updating, end)):
        if row[f"{name}_ns"] is not None:
            yield Event("X", name, pid, tid, us(span.at(a)), us(b - a), "step")


def _counters(span: Span, row: dict[str, Any], pid: int) -> Iterator[Event]:
    for name, columns in COUNTERS.items():
        if values := seen(row, *columns):
            yield Event("C", name, pid, 0, us(span.at(row["start_ns"])), args=values)
