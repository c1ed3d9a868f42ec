"""A trace file → rows of the store: read, labelled, placed, and with the work of each kernel.

    tables, about = load(Path("rank0.pt.trace.json.gz"), Identity("c1", "worker-4711"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pellucid.catalog.devices.gpus import device_of
from pellucid.physics.ceilings import Ceilings, Measured, measured_ceilings, with_measured
from pellucid.trace import detect
from pellucid.trace.classify import Label, classify
from pellucid.trace.host_ops import with_host_kernels
from pellucid.trace.place.placed import Placed, StepSeen, place
from pellucid.trace.rows.columns import Identity
from pellucid.trace.rows.sums import launch_rows, table_rows
from pellucid.trace.rows.timeline import timeline_rows
from pellucid.trace.timeline import About, KernelTable, Launches, Timeline
from pellucid.trace.work.batches import Batch
from pellucid.trace.work.model import Model
from pellucid.trace.work.works import Scene, works


@dataclass(frozen=True, slots=True)
class Loaded:
    tables: dict[str, pa.Table]
    about: About


def load(path: Path, who: Identity, model: Model | None = None, own: Sequence[Measured] = ()) -> Loaded:
    """`model`: sizes on one device, where the model's configuration is known; `own`: what was measured on devices here.
    Raises AskedWrongly where the file cannot be read, or holds no kernels."""
    trace = detect.load(path)
    if isinstance(trace, KernelTable):
        return Loaded(table_rows(trace, [classify(row.name) for row in trace.rows], who), trace.about)
    if isinstance(trace, Launches):
        return Loaded(launch_rows(trace, [classify(one.name) for one in trace.launches], who), trace.about)
    return Loaded(rows_of(trace, who, model, own=own), trace.about)


def rows_of(
    timeline: Timeline, who: Identity, model: Model | None = None, shift_ns: int = 0,
    batches: Mapping[int, Batch] | None = None, own: Sequence[Measured] = (),
    quiet: Sequence[tuple[int, int]] | None = None,
) -> dict[str, pa.Table]:  # fmt: skip
    """`shift_ns` moves the file's clock; `batches` and `quiet`: what a running engine told of its steps, by their
    numbers, and of the time without any request."""
    timeline = with_host_kernels(timeline)
    labels = label(timeline)
    placed = with_batches(place(timeline, labels), batches or {})
    scene = Scene(timeline, labels, placed)
    ceilings = ceilings_of(timeline, own)
    return timeline_rows(scene, works(scene, ceilings, model, batches), who, shift_ns, ceilings, quiet)


def with_batches(placed: Placed, batches: Mapping[int, Batch]) -> Placed:
    """Steps with the batches that the engine told."""
    return replace(placed, steps=tuple(_with_batch(s, batches.get(s.step.number)) for s in placed.steps))


def _with_batch(seen: StepSeen, batch: Batch | None) -> StepSeen:
    if batch is None or batch.tokens is None or batch.decode_tokens is None:
        return seen
    phase = "decode" if not batch.prefills else "mixed" if batch.decodes else "prefill"
    return replace(seen, phase=phase, phase_basis="run", prefill_requests=batch.prefills,
                   prefill_tokens=batch.tokens - batch.decode_tokens, decode_requests=batch.decodes,
                   decode_tokens=batch.decode_tokens)  # fmt: skip


def label(timeline: Timeline) -> list[Label]:
    """One for each kernel; each name is read once with each of its operators."""
    known: dict[tuple[int, int], Label] = {}
    out = []
    operators = len(timeline.kernels) > 0 and bool((timeline.kernels.device < 0).all())     # in the place of kernels
    for name, op in zip(timeline.kernels.name.tolist(), timeline.kernels.op.tolist(), strict=True):
        launched_by = int(timeline.host.name[op]) if op >= 0 else -1
        if (name, launched_by) not in known:
            text, by = timeline.names[name], timeline.names[launched_by] if launched_by >= 0 else None
            known[name, launched_by] = _of_operator(text) if operators else classify(text, by)
        out.append(known[name, launched_by])
    return out


def _of_operator(name: str) -> Label:
    """The framework's own are told as operators only. An engine's own are named as its kernels are, but which kernel
    there is on a device, and of which library, is not told of one that ran on none."""
    if name.startswith("aten::"):
        return classify("", name)
    return replace(classify(name, name), detail="", library="")


def ceilings_of(timeline: Timeline, own: Sequence[Measured] = ()) -> Ceilings | None:
    """Of the device that ran the kernels: what was measured on one of that name here, before what the catalogue has.
    None where neither knows it."""
    devices = {d.name for d in timeline.about.devices if d.name}
    if len(devices) != 1:
        return None
    (name,) = devices
    device = device_of(name)
    known = measured_ceilings(device) if device else None
    mine = next((m for m in own if m.device == name), None)
    return with_measured(known, mine) if mine else known
