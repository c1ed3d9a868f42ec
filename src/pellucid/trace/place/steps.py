"""Timeline → steps of the engine, and the step of each kernel.

By the host's ranges around steps, where there are any (catalog/kernels/step_labels.toml):

    host      |--- execute, step 7 ---| |- sample -|   |--- execute, step 8 ---|
    launches     x   x x       x          x         x      x
    step         7   7 7       7          7         7      8        until the next step begins

A kernel belongs to the step in which it was launched, whenever it ran. Otherwise by the kernel that begins each step,
the lookup of embeddings, or by launches of device graphs. Kernels before the first step are in none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.catalog.kernels.step_labels import Label, read
from pellucid.trace.timeline import ANNOTATION, GPU_ANNOTATION, NOT_TOLD, Longs, Timeline

NO_LABEL = Label("")
OUTSIDE = -1
LEAST_BY_GRAPH = 0.2    # chosen: below it, a graph is somebody else's, such as a sampler's


@dataclass(frozen=True, slots=True)
class Step:
    """A step as the trace has it. Its number is the engine's where the label has one, else counted from 0."""

    number: int
    label: Label
    host_start_ns: int | None = None
    host_end_ns: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    steps: tuple[Step, ...]
    of_kernel: Longs            # row in `steps` of each kernel; OUTSIDE
    basis: str                  # annotation, kernels or none: what they were told by


def none(timeline: Timeline) -> Steps:
    return Steps((), np.full(len(timeline.kernels), OUTSIDE, np.int64), "none")


def annotated(timeline: Timeline) -> Steps | None:
    """By ranges of the host; by those the profiler copied to the device where the host's are missing."""
    for kind in (ANNOTATION, GPU_ANNOTATION):
        rows = np.flatnonzero(timeline.host.kind == kind)
        labels = {int(i): label for i in np.unique(timeline.host.name[rows]) if (label := read(timeline.names[i]))}
        rows = rows[np.isin(timeline.host.name[rows], list(labels))]
        if len(rows):
            return _by_ranges(timeline, rows, [labels[int(i)] for i in timeline.host.name[rows]], kind)
    return None


def _by_ranges(timeline: Timeline, rows: Longs, labels: list[Label], kind: int) -> Steps:
    """Our own ranges are better than the engine's, which lie within them."""
    if any(label.step is not None for label in labels):
        kept = [n for n, label in enumerate(labels) if label.step is not None]
        rows, labels = rows[kept], [labels[n] for n in kept]
    starts, ends = timeline.host.start_ns[rows], timeline.host.start_ns[rows] + timeline.host.duration_ns[rows]
    steps: list[Step] = []
    first_rows: list[int] = []
    for n, label in enumerate(labels):
        if steps and label.step is not None and steps[-1].number == label.step:
            steps[-1] = Step(label.step, steps[-1].label, steps[-1].host_start_ns, int(ends[n]))
            continue
        number = len(steps) if label.step is None else label.step
        steps.append(Step(number, label, int(starts[n]), int(ends[n])))
        first_rows.append(n)
    moments = launch_times(timeline) if kind == ANNOTATION else timeline.kernels.start_ns
    of_kernel = np.searchsorted(starts[first_rows], moments, "right") - 1
    of_kernel = np.where(moments == NOT_TOLD, OUTSIDE, of_kernel)
    return Steps(tuple(steps), of_kernel.astype(np.int64), "annotation")


def launch_times(timeline: Timeline) -> Longs:
    """When the host launched each kernel; -1 where the trace does not tell."""
    launch = timeline.kernels.launch
    if not len(timeline.host):
        return np.full(len(launch), NOT_TOLD, np.int64)
    return np.where(launch >= 0, timeline.host.start_ns[launch], NOT_TOLD)


def begun(timeline: Timeline, begins: Longs) -> Steps | None:
    """By kernels that begin a step (lookups.py), of the stream with most of them."""
    kernels = timeline.kernels
    if not len(begins):
        return None
    streams, counts = np.unique(kernels.stream[begins], return_counts=True)
    starts = begins[kernels.stream[begins] == streams[np.argmax(counts)]]
    of_kernel = np.searchsorted(kernels.start_ns[starts], kernels.start_ns, "right") - 1
    return Steps(tuple(Step(n, NO_LABEL) for n in range(len(starts))), of_kernel.astype(np.int64), "kernels")


def graph_launches(timeline: Timeline) -> Steps | None:
    """Each launch of a device graph as a step."""
    by_graph = np.flatnonzero(_by_graph(timeline, timeline.kernels.launch))
    if not len(by_graph):
        return None
    launches = np.unique(timeline.kernels.launch[by_graph])
    of_kernel = np.full(len(timeline.kernels), OUTSIDE, np.int64)
    of_kernel[by_graph] = np.searchsorted(launches, timeline.kernels.launch[by_graph])
    return Steps(tuple(Step(n, NO_LABEL) for n in range(len(launches))), of_kernel, "kernels")


def graph_of(timeline: Timeline, rows: Longs) -> str | None:
    """full, piecewise or none: how much of a step's kernels device graphs launched; None where no launch is visible."""
    launch = timeline.kernels.launch[rows]
    launch = launch[launch >= 0]
    if not len(launch):
        return None
    by_graph = _by_graph(timeline, launch)
    if by_graph.mean() < LEAST_BY_GRAPH:
        return "none"
    return "full" if len(np.unique(launch[by_graph])) == 1 else "piecewise"


def _by_graph(timeline: Timeline, launch: Longs) -> np.ndarray:
    """Whether each row of a runtime call, or -1, launches a device graph."""
    names = np.array(["graphlaunch" in name.lower() for name in timeline.names], bool)
    found = np.zeros(len(launch), bool)
    found[launch >= 0] = names[timeline.host.name[launch[launch >= 0]]]
    return found
