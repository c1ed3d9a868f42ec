"""Tracks of a timeline: processes and threads of the trace format, numbered as they are first used.

    tracks = Tracks()
    pid = tracks.group("device 0 of worker-4711")
    tid = tracks.lane(pid, "stream 7", start_ns, end_ns)      "stream 7 (2)" while the first still has a slice
    events += tracks.names()                                  at the end: who is who

Slices of one track must lie in one another or apart. What overlaps otherwise, requests that run together or kernels of
one stream that do, gets a lane beside it. Lanes need no order of the slices; slices by their start need fewest lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from pellucid.verbs.export.event import Event


@dataclass(slots=True)
class Tracks:
    groups: dict[str, int] = field(default_factory=dict)                # name → pid
    lanes: dict[tuple[int, str], list[tuple[int, int, int]]] = field(default_factory=dict)  # end of last slice, n, tid
    titles: list[tuple[int, str]] = field(default_factory=list)         # by tid: pid and name

    def group(self, name: str) -> int:
        """Numbers begin with 1: viewers take 0 for the idle process."""
        return self.groups.setdefault(name, len(self.groups) + 1)

    def lane(self, pid: int, name: str, start_ns: int, end_ns: int) -> int:
        """The number of a track of that name on which nothing lies where this slice is to lie."""
        free = self.lanes.setdefault((pid, name), [])
        if free and free[0][0] <= start_ns:
            _, number, tid = free[0]
            heapq.heapreplace(free, (end_ns, number, tid))
            return tid
        number = len(free) + 1
        self.titles.append((pid, name if number == 1 else f"{name} ({number})"))
        heapq.heappush(free, (end_ns, number, len(self.titles)))
        return len(self.titles)

    def names(self) -> Iterator[Event]:
        for name, pid in self.groups.items():
            yield Event("M", "process_name", pid, args={"name": name})
            yield Event("M", "process_sort_index", pid, args={"sort_index": pid})
        for tid, (pid, name) in enumerate(self.titles, start=1):
            yield Event("M", "thread_name", pid, tid, args={"name": name})
            yield Event("M", "thread_sort_index", pid, tid, args={"sort_index": tid})
