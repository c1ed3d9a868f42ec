"""Arrows from a launch to what it started → correlations, for traces whose events do not carry them.

    {"ph": "s", "id": 7, "pid": 90, "tid": 91, "ts": 10.5, "cat": "ac2g"}     at the runtime call's start
    {"ph": "f", "id": 7, "pid": 0,  "tid": 20, "ts": 12.0, "cat": "ac2g"}     at the kernel's start, device and stream

Read in a second pass over the file, and only where it is needed: a third of a trace's events are arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.trace.timeline import NOT_TOLD, Longs
from pellucid.trace.torch_profiler.clock import to_ns
from pellucid.trace.torch_profiler.events import Event

CATEGORIES = ("ac2g", "async_cpu_to_gpu", "async_gpu")
Place = tuple[Any, Any, int]        # process or device, thread or stream, time


@dataclass(slots=True)
class Flows:
    starts: dict[Place, int] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)

    def add(self, events: Sequence[Event]) -> None:
        """Raises NotExact."""
        arrows = [e for e in events if e.ph in ("s", "f") and e.cat in CATEGORIES and type(e.id) is int]
        at_ns, told = to_ns([e.ts for e in arrows])
        for event, time_ns, ok in zip(arrows, at_ns.tolist(), told.tolist(), strict=True):
            if ok and isinstance(event.id, int):
                (self.starts if event.ph == "s" else self.ends)[(event.pid, event.tid, time_ns)] = event.id

    def fill(self, kernels: dict[str, Longs], host: dict[str, Longs], threads: list[tuple[int, int]]) -> None:
        """Correlations that are not told yet."""
        _fill(kernels, self.ends, list(zip(kernels["device"].tolist(), kernels["stream"].tolist(), strict=True)))
        _fill(host, self.starts, [threads[number] for number in host["thread"].tolist()])


def _fill(columns: dict[str, Longs], known: dict[Place, int], places: list[tuple[int, int]]) -> None:
    found = [known.get((*place, at), NOT_TOLD) for place, at in zip(places, columns["start_ns"].tolist(), strict=True)]
    told = columns["correlation"]
    columns["correlation"] = np.where(told == NOT_TOLD, np.array(found, np.int64), told)
