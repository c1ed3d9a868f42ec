"""A trace without a device → its operators in the place of kernels, each with the time that is its own.

    |------- linear ------|          linear   own time 2 + 1
      |---- addmm ----|              addmm    own time, without operators in it

So an engine on a CPU has kernels too. They run on no device, and their streams are threads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pellucid.trace.timeline import KERNEL, OP, RUNTIME, HostEvents, Longs, Timeline, kernels_of


def with_host_kernels(timeline: Timeline) -> Timeline:
    """The timeline itself where there was a device, whether or not its kernels are there: a trace that was cut may have
    lost them. And where it has no operators."""
    ops = np.flatnonzero(timeline.host.kind == OP)
    if had_device(timeline) or not len(ops):
        return timeline
    own = own_ns(timeline.host, ops)
    rows, own = ops[own > 0], own[own > 0]
    host = timeline.host
    kernels = kernels_of({
        "name": host.name[rows].astype(np.int64), "kind": np.full(len(rows), KERNEL), "start_ns": host.start_ns[rows],
        "duration_ns": own, "stream": host.thread[rows].astype(np.int64), "launch": rows, "op": rows,
    })  # fmt: skip
    return replace(timeline, kernels=kernels)


def had_device(timeline: Timeline) -> bool:
    """A device is described, something ran on one, or the host called a device's runtime."""
    return bool(timeline.about.devices) or len(timeline.kernels) > 0 or bool((timeline.host.kind == RUNTIME).any())


def own_ns(host: HostEvents, ops: Longs) -> Longs:
    """Time of each operator that is not time of an operator within it, on its thread. `ops` are sorted by start."""
    own = host.duration_ns[ops].copy()
    open_by_thread: dict[int, list[int]] = {}
    start, end = host.start_ns[ops].tolist(), (host.start_ns[ops] + host.duration_ns[ops]).tolist()
    for n, thread in enumerate(host.thread[ops].tolist()):
        stack = open_by_thread.setdefault(thread, [])
        while stack and end[stack[-1]] <= start[n]:
            stack.pop()
        if stack:
            own[stack[-1]] -= end[n] - start[n]
        stack.append(n)
    return np.maximum(own, 0)
