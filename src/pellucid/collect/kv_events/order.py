"""Numbered batches, in whatever order they come → batches in order, and the holes between them.

    take(0) → [0]   take(1) → [1]   take(4) → []   hole() == range(2, 4)   take(2) → [2]   take(3) → [3, 4]

A publisher numbers its batches from 0. A hole is what it sent and we have not: it may still come late, or by replay;
`give_up` ends the waiting. A number below the one that is next is a repetition (a replay overlaps with the live stream)
unless it was published later than everything before: then the publisher has started again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pellucid.collect.kv_events.wire import Batch


@dataclass(slots=True)
class Order:
    next: int | None = None                                   # None: nothing has come yet
    waiting: dict[int, Batch] = field(default_factory=dict)   # came before their turn
    newest_ns: int = -1                                       # latest time of publication seen
    last_ns: int | None = None                                # that of the batch before `next`; None if it was missed
    repeated_count: int = 0

    def take(self, number: int, batch: Batch) -> list[Batch]:
        """Batches whose turn it is now."""
        assert self.next is not None
        if number < self.next or number in self.waiting:
            self.repeated_count += 1
            return []
        self.newest_ns = max(self.newest_ns, batch.wall_ns)
        self.waiting[number] = batch
        return self._ready()

    def is_restart(self, number: int, batch: Batch) -> bool:
        """Whether a batch is of a publisher that has counted from 0 again: it repeats a number with other contents."""
        if self.next is None or number >= self.next:
            return False
        other = number == self.next - 1 and self.last_ns not in (None, batch.wall_ns)
        return other or batch.wall_ns > self.newest_ns

    def hole(self) -> range:
        """The first hole; empty when there is none."""
        if self.next is None or not self.waiting:
            return range(0)
        return range(self.next, min(self.waiting))

    def give_up(self) -> list[Batch]:
        """Goes on behind the first hole."""
        if self.hole():
            self.next, self.last_ns = self.hole().stop, None
        return self._ready()

    def _ready(self) -> list[Batch]:
        ready = []
        while self.next in self.waiting:
            ready.append(self.waiting.pop(self.next))
            self.next, self.last_ns = self.next + 1, ready[-1].wall_ns
        return ready
