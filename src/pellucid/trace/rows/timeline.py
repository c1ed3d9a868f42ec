"""A Timeline → rows: one for the capture, one for each step and device, one for each kernel.

    tables = timeline_rows(scene, known, Identity("c1", "worker-4711"), shift_ns=0)
    tables["kernels"].num_rows == 14455

`shift_ns` moves the file's clock to that of the run. Copies and fills are rows too, of the classes copy and memset.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.physics.ceilings import Ceilings
from pellucid.store.schema import CAPTURE_STEPS, CAPTURES, KERNELS
from pellucid.trace.place.idle import LAUNCH, QUEUED, SYNC, UNKNOWN, Gaps, busy_edges, covered_ns, find_gaps
from pellucid.trace.place.placed import StepSeen
from pellucid.trace.rows.columns import Identity, table, texts, told
from pellucid.trace.timeline import KERNEL, KINDS, NOT_TOLD, Codes, Ids, Longs, Timeline
from pellucid.trace.timeline import SYNC as SYNC_KIND
from pellucid.trace.work.known import Known
from pellucid.trace.work.works import Scene

Tables = dict[str, pa.Table]


def timeline_rows(
    scene: Scene, known: Sequence[Known], who: Identity, shift_ns: int = 0, ceilings: Ceilings | None = None,
    quiet: Sequence[tuple[int, int]] | None = None,
) -> Tables:  # fmt: skip
    """`quiet`: from when to when no request was there, in the clock of the run; None where nobody tells."""
    return {
        "captures": capture_row(scene, who, shift_ns, ceilings),
        "capture_steps": _steps(scene, who, shift_ns, quiet),
        "kernels": _kernels(scene, known, who, shift_ns),
    }


def capture_row(scene: Scene, who: Identity, shift_ns: int, ceilings: Ceilings | None = None) -> pa.Table:
    timeline = scene.timeline
    about, kernels, host = timeline.about, timeline.kernels, timeline.host
    mine = kernels.kind == KERNEL
    used = np.unique(kernels.device[mine & (kernels.device >= 0)])
    device = about.device(int(used[0])) if len(used) else (about.devices[0] if about.devices else None)
    starts = [int(c.start_ns.min()) for c in (kernels, host) if len(c)]
    ends = [int((c.start_ns + c.duration_ns).max()) for c in (kernels, host) if len(c)]
    start_ns = min(starts) + shift_ns if starts else None
    zero_ns = about.wall_zero_ns
    return table(CAPTURES, 1, {
        **who.columns(), "format": about.format, "file": about.file, "model": who.model,
        "device_name": device.name if device else None,
        "compute_capability": device.compute_capability if device else None,
        "processors_count": device.processors_count if device else None,
        "device_memory_bytes": device.memory_bytes if device else None,
        "ceilings": ceilings_json(ceilings) if ceilings else None,
        "damage": "; ".join(about.damage) or None, "damaged_count": about.damaged_count,
        "redacted_count": about.redacted_count, "rank": about.rank, "ranks_count": about.ranks_count,
        "devices_count": len(used), "start_ns": start_ns, "end_ns": max(ends) + shift_ns if ends else None,
        "wall_start_ns": min(starts) + zero_ns if starts and zero_ns is not None else None,
        "steps_count": sum(1 for rows in scene.placed.rows if len(rows)), "kernels_count": int(mine.sum()),
        "kernels_ns": int(kernels.duration_ns[mine].sum()), "host_events_count": len(host),
        "trace_bytes": about.trace_bytes,
    })  # fmt: skip


def ceilings_json(ceilings: Ceilings) -> str:
    """What the roofs of a capture were computed with. Links and exponentials are the data sheet's, and not in it."""
    rates = {"hbm_bytes_per_s": ceilings.memory, **{f"{p}_flop_per_s": rate for p, rate in ceilings.flop}}
    return json.dumps({name: {"per_s": r.per_s, "basis": r.basis, "source": r.source} for name, r in rates.items()})


def _kernels(scene: Scene, known: Sequence[Known], who: Identity, shift_ns: int) -> pa.Table:
    timeline, placed = scene.timeline, scene.placed
    kernels, host = timeline.kernels, timeline.host
    rows = np.flatnonzero(kernels.kind != SYNC_KIND)
    k = {f.name: getattr(kernels, f.name)[rows] for f in fields(kernels)}

    def of_op(numbers: Ids) -> Ids:
        found = np.full(len(rows), NOT_TOLD, np.int32)
        found[k["op"] >= 0] = numbers[k["op"][k["op"] >= 0]]
        return found

    step = placed.step[rows]
    numbers = np.array([s.step.number for s in placed.steps] or [0])
    extents = [",".join(map(str, e)) for e in timeline.extents]
    mine = [known[i] for i in rows.tolist()]
    labels = [scene.labels[i] for i in rows.tolist()]
    return table(KERNELS, len(rows), {
        **who.columns(), "name": texts(k["name"], timeline.names), "kind": _kinds(k["kind"], k["device"]),
        "class": [label.category for label in labels],
        "detail": [label.detail or None for label in labels],
        "op": texts(of_op(host.name), timeline.names), "shapes": texts(of_op(host.shapes), timeline.texts),
        "types": texts(of_op(host.types), timeline.texts),
        "phase": texts(step, [s.phase for s in placed.steps]),
        "step": pa.array(numbers[np.maximum(step, 0)], mask=step < 0), "layer": told(placed.layer[rows]),
        "device_index": told(k["device"]), "stream": told(k["stream"]), "correlation": told(k["correlation"]),
        "start_ns": k["start_ns"] + shift_ns, "duration_ns": k["duration_ns"], "count": 1,
        "grid": texts(k["grid"], extents), "block": texts(k["block"], extents),
        "precision": [w.precision or label.precision for w, label in zip(mine, labels, strict=True)],
        "flop": [w.flop for w in mine], "moved_bytes": [w.moved_bytes for w in mine],
        "roof_ns": [w.roof_ns for w in mine], "bound": [w.bound for w in mine],
        "work_basis": [w.basis for w in mine], "roof_basis": [w.roof_basis for w in mine],
        "work_note": [w.note for w in mine],
    })  # fmt: skip


def _kinds(kind: Codes, device: Ids) -> pa.Array:
    """What ran on no device is an operator of the host."""
    return texts(np.where((kind == KERNEL) & (device < 0), len(KINDS), kind), (*KINDS, "op"))


def _steps(scene: Scene, who: Identity, shift_ns: int, quiet: Sequence[tuple[int, int]] | None) -> pa.Table:
    timeline = scene.timeline
    devices = np.unique(timeline.kernels.device[timeline.kernels.kind == KERNEL]).tolist()
    columns: dict[str, list[object]] = {}
    for device in devices:
        gaps = find_gaps(timeline, device, [(start - shift_ns, end - shift_ns) for start, end in quiet or ()])
        last_end: int | None = None
        for seen, rows in zip(scene.placed.steps, scene.placed.rows, strict=True):
            mine = rows[timeline.kernels.device[rows] == device]
            if not (timeline.kernels.kind[mine] == KERNEL).any():
                continue
            row = _step(scene, seen, mine, gaps, last_end)
            last_end = row["end_ns"]
            if quiet is None:
                row["idle_nothing_ns"] = None
            if device < 0:           # operators of the host: no device was idle
                row |= dict.fromkeys(n for n in row if n.startswith(("idle_", "busy_", "comm_")))
            for name in ("start_ns", "end_ns", "host_start_ns", "host_end_ns"):
                row[name] = None if row[name] is None else row[name] + shift_ns
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
            columns.setdefault("device_index", []).append(device if device >= 0 else None)
    count = len(next(iter(columns.values()), []))
    return table(CAPTURE_STEPS, count, {**who.columns(), **columns} if count else who.columns())


def _step(
    scene: Scene, seen: StepSeen, rows: Longs, gaps: Gaps, last_end: int | None
) -> dict[str, Any]:
    timeline, kernels = scene.timeline, scene.timeline.kernels
    work = rows[kernels.kind[rows] == KERNEL]
    start, end = kernels.start_ns[work], kernels.start_ns[work] + kernels.duration_ns[work]
    first, last = int(start.min()), int(end.max())
    busy_start, busy_end = busy_edges(start, end)
    idle = (gaps.start_ns >= (first if last_end is None else min(first, last_end))) & (gaps.end_ns <= last)
    length = gaps.end_ns - gaps.start_ns - gaps.copied_ns - gaps.nothing_ns
    causes = {f"idle_{name}_ns": int(length[idle & (gaps.cause == code)].sum()) for name, code in (
        ("launch", LAUNCH), ("sync", SYNC), ("queued", QUEUED), ("unknown", UNKNOWN))}  # fmt: skip
    return {
        "step": seen.step.number, "phase": seen.phase, "phase_basis": seen.phase_basis, "graph": seen.graph,
        "label": seen.step.label.text or None, "start_ns": first, "end_ns": last,
        "host_start_ns": seen.step.host_start_ns, "host_end_ns": seen.step.host_end_ns,
        "prefill_requests_count": seen.prefill_requests, "prefill_tokens": seen.prefill_tokens,
        "decode_requests_count": seen.decode_requests, "decode_tokens": seen.decode_tokens,
        "kernels_count": len(work), "kernels_ns": int(kernels.duration_ns[work].sum()),
        "busy_ns": int((busy_end - busy_start).sum()), **causes, "idle_copy_ns": int(gaps.copied_ns[idle].sum()),
        "idle_nothing_ns": int(gaps.nothing_ns[idle].sum()),
        "comm_exposed_ns": _exposed_comm_ns(timeline, scene, work),
        "idle_before_ns": None if last_end is None else max(0, first - last_end),
    }  # fmt: skip


def _exposed_comm_ns(timeline: Timeline, scene: Scene, rows: Longs) -> int:
    """Time with communication and no other kernel."""
    kernels = timeline.kernels
    is_comm = np.array([scene.labels[i].category == "comm" for i in rows.tolist()], bool)
    if not is_comm.any():
        return 0
    end = kernels.start_ns + kernels.duration_ns
    comm, other = rows[is_comm], rows[~is_comm]
    comm_start, comm_end = busy_edges(kernels.start_ns[comm], end[comm])
    start, stop = busy_edges(kernels.start_ns[other], end[other])
    return int((comm_end - comm_start).sum() - covered_ns(start, stop, comm_start, comm_end).sum())
