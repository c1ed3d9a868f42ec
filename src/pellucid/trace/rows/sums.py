"""A KernelTable or Launches → rows: kernels without times of their own, and what a kernel profiler counted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pellucid.store.schema import CAPTURES, KERNEL_METRICS, KERNELS
from pellucid.trace.classify import Label
from pellucid.trace.rows.columns import Identity, table
from pellucid.trace.timeline import About, KernelTable, Launch, Launches

# Of the profiler's metrics: how long an execution took, and what it moved from and to the device's memory.
DURATIONS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
MOVED = (("dram__bytes.sum",), ("dram__bytes_read.sum", "dram__bytes_write.sum"))


def table_rows(seen: KernelTable, labels: Sequence[Label], who: Identity) -> dict[str, pa.Table]:
    """A table that tells shares only has no times. One of means for a step counts as one step."""
    total = [row.total_ns for row in seen.rows]
    counts = [None if row.count is None else round(row.count) for row in seen.rows]
    told = [ns for ns in total if ns is not None]
    kernels = table(KERNELS, len(seen.rows), {
        **who.columns(), "name": [row.name for row in seen.rows], "kind": "kernel", **_labels(labels),
        "duration_ns": total, "count": counts, "grid": [_extent(row.grid) for row in seen.rows],
        "block": [_extent(row.block) for row in seen.rows],
    })  # fmt: skip
    return {
        "captures": _capture(seen.about, who, sum(c for c in counts if c) if any(counts) else None,
                             sum(told) if told else None, 1 if seen.per == "step" else None),
        "kernels": kernels,
    }  # fmt: skip


def launch_rows(seen: Launches, labels: Sequence[Label], who: Identity) -> dict[str, pa.Table]:
    """Kernels with the time and the bytes that were counted in them, and all metrics."""
    took = [_first(launch, DURATIONS) for launch in seen.launches]
    moved = [next((m for names in MOVED if (m := _sum(launch, names)) is not None), None) for launch in seen.launches]
    kernels = table(KERNELS, len(seen.launches), {
        **who.columns(), "name": [launch.name for launch in seen.launches], "kind": "kernel", **_labels(labels),
        "duration_ns": [None if ns is None else round(ns) for ns in took], "count": 1,
        "device_index": [launch.device for launch in seen.launches],
        "stream": [launch.stream for launch in seen.launches],
        "grid": [_extent(launch.grid) for launch in seen.launches],
        "block": [_extent(launch.block) for launch in seen.launches],
        "moved_bytes": moved, "work_basis": ["profiler" if m is not None else None for m in moved],
    })  # fmt: skip
    pairs = [(n, m) for n, launch in enumerate(seen.launches) for m in launch.metrics]
    metrics = table(KERNEL_METRICS, len(pairs), {
        **who.columns(), "launch": [seen.launches[n].number for n, _ in pairs],
        "name": [seen.launches[n].name for n, _ in pairs], "class": [labels[n].category for n, _ in pairs],
        "section": [m.section for _, m in pairs], "metric": [m.metric for _, m in pairs],
        "unit": [m.unit for _, m in pairs], "value": [m.value for _, m in pairs], "text": [m.text for _, m in pairs],
    })  # fmt: skip
    told = [round(ns) for ns in took if ns is not None]
    capability = next((launch.compute_capability for launch in seen.launches if launch.compute_capability), None)
    capture = _capture(seen.about, who, len(seen.launches), sum(told) if told else None, None, capability)
    return {"captures": capture, "kernels": kernels, "kernel_metrics": metrics}


def _capture(
    about: About, who: Identity, kernels_count: int | None, kernels_ns: int | None, steps_count: int | None,
    capability: str | None = None,
) -> pa.Table:  # fmt: skip
    device = about.devices[0] if about.devices else None
    return table(CAPTURES, 1, {
        **who.columns(), "format": about.format, "file": about.file, "model": who.model,
        "device_name": device.name if device else None,
        "compute_capability": (device.compute_capability if device else None) or capability,
        "processors_count": device.processors_count if device else None,
        "device_memory_bytes": device.memory_bytes if device else None, "rank": about.rank,
        "ranks_count": about.ranks_count, "damage": "; ".join(about.damage) or None,
        "damaged_count": about.damaged_count, "redacted_count": about.redacted_count, "steps_count": steps_count,
        "kernels_count": kernels_count, "kernels_ns": kernels_ns, "trace_bytes": about.trace_bytes,
    })  # fmt: skip


def _labels(labels: Sequence[Label]) -> dict[str, list[str | None]]:
    return {
        "class": [label.category for label in labels], "detail": [label.detail or None for label in labels],
        "phase": [label.phase or None for label in labels], "precision": [label.precision for label in labels],
    }  # fmt: skip


def _first(launch: Launch, names: Sequence[str]) -> float | None:
    found = {m.metric: m.value for m in launch.metrics}
    return next((value for name in names if (value := found.get(name)) is not None), None)


def _sum(launch: Launch, names: Sequence[str]) -> float | None:
    values = [_first(launch, (name,)) for name in names]
    told = [value for value in values if value is not None]
    return sum(told) if len(told) == len(names) else None


def _extent(extent: tuple[int, int, int] | None) -> str | None:
    return None if extent is None else ",".join(map(str, extent))
