"""Captures → for each device a track of its steps and one for each stream, with kernels in the colours of their class.

    device 0 of worker-4711 · NVIDIA H200      steps      |        decode, 64 requests         |
                                               stream 7   |rms_norm|qkv gemm|  attention  | …

Their category, device, stream, correlation, grid and block are spelled as a torch profiler does, so that what reads its
traces reads these. Kernels without a time of their own, of a table of sums, are on no timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pellucid.store.read import RunReader
from pellucid.verbs.export.event import COLOURS, Args, Event, seen, us
from pellucid.verbs.export.pages import pages
from pellucid.verbs.export.span import Captured, Span
from pellucid.verbs.export.steps import Arrows
from pellucid.verbs.export.tracks import Tracks

CATEGORIES = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "op": "cpu_op"}
TOLD = ("class", "detail", "layer", "op", "step", "phase", "precision", "roof_ns", "bound")
STEP_TOLD = ("step", "graph", "prefill_requests_count", "prefill_tokens", "decode_requests_count", "decode_tokens",
             "kernels_count", "kernels_ns", "busy_ns", "idle_launch_ns", "idle_nothing_ns", "idle_before_ns",
             "label")  # fmt: skip
KERNELS = f"""
    SELECT capture, process, name, kind, device_index, stream, correlation, grid, block, start_ns, duration_ns,
           {', '.join(TOLD)}
    FROM kernels WHERE start_ns IS NOT NULL AND duration_ns IS NOT NULL AND capture = $capture AND process = $process
                   AND start_ns BETWEEN $lo AND $hi"""
STEPS = f"""
    SELECT device_index, phase, start_ns, end_ns, {', '.join(STEP_TOLD)}
    FROM capture_steps WHERE capture = $capture AND process = $process AND start_ns BETWEEN $lo AND $hi
    ORDER BY start_ns"""


def kernels(run: RunReader, span: Span, tracks: Tracks, from_steps: Arrows) -> Iterator[Event]:
    for captured in span.captures.values():
        asked = _asked(span, captured)
        firsts: dict[tuple[int, int | None], int] = {}
        for row in run.rows(STEPS, asked):
            firsts[row["step"], row["device_index"]] = row["start_ns"]
            yield _step(span, captured, row, tracks)
        for row in pages(run, KERNELS, asked):
            event = _kernel(span, captured, row, tracks)
            yield event
            where = row["step"], row["device_index"]
            if where[0] is not None and row["kind"] == "kernel" and firsts.get(where) == row["start_ns"]:
                del firsts[where]
                number = from_steps.begun.get((row["capture"], row["process"], *where))
                if number is not None:
                    yield Event("f", "runs", event.pid, event.tid, event.ts, cat="runs", id=number, bp="e")


def _asked(span: Span, captured: Captured) -> Args:
    return {"capture": captured.row["capture"], "process": captured.row["process"],
            "lo": span.first_ns - captured.shift_ns, "hi": span.last_ns - captured.shift_ns}  # fmt: skip


def _group(captured: Captured, device: int | None) -> str:
    row = captured.row
    what = "operators" if device is None else f"device {device}"
    name = f" · {row['device_name']}" if row["device_name"] and device is not None else ""
    return f"{what} of {row['process']}{name}{' (on a clock of its own)' if captured.own_clock else ''}"


def _step(span: Span, captured: Captured, row: dict[str, Any], tracks: Tracks) -> Event:
    start_ns, lasted_ns = row["start_ns"] + captured.shift_ns, row["end_ns"] - row["start_ns"]
    pid = tracks.group(_group(captured, row["device_index"]))
    tid = tracks.lane(pid, "steps", start_ns, start_ns + lasted_ns)
    name = f"step {row['step']}: {row['phase'] or 'phase not known'}"
    return Event("X", name, pid, tid, us(span.at(start_ns)), us(lasted_ns), "capture_step",
                 COLOURS.get(row["phase"] or "", "generic_work"), args=seen(row, *STEP_TOLD))  # fmt: skip


def _kernel(span: Span, captured: Captured, row: dict[str, Any], tracks: Tracks) -> Event:
    start_ns = row["start_ns"] + captured.shift_ns
    device, stream = row["device_index"], row["stream"]
    pid = tracks.group(_group(captured, device))
    track = "stream not told" if stream is None else f"stream {stream}"
    tid = tracks.lane(pid, "operators" if device is None else track, start_ns, start_ns + row["duration_ns"])
    return Event("X", row["name"], pid, tid, us(span.at(start_ns)), us(row["duration_ns"]),
                 CATEGORIES.get(row["kind"], row["kind"]), COLOURS.get(row["class"], "generic_work"), args=_told(row))


def _told(row: dict[str, Any]) -> Args:
    told = seen(row, *TOLD, "stream", "correlation")
    if row["device_index"] is not None:
        told["device"] = row["device_index"]
    if row["roof_ns"] is not None and row["duration_ns"]:
        told["roof_ratio"] = round(row["roof_ns"] / row["duration_ns"], 4)
    for name in ("grid", "block"):
        if row[name] is not None:
            told[name] = [int(n) for n in row[name].split(",")]
    return told
