"""Events of one publisher, in order → rows of `kv_residency`: the life of a block in a tier.

    stored           a life opens. A hash stored again is a second copy: copies are lives of their own
    removed          the oldest life of that hash closes; with none open it was cached before we looked: no start
    cleared          closes what is on the device; the event does not say what it means for other tiers
    lost messages    every life that was open may have ended in them: closed as unknown, without a time

Requests, hits and the moment a block was freed are not in the events and stay null. A block that is still there at the
end of the recording is a row without an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid_probe.process import keyed_hash

from pellucid.collect.kv_events.wire import UNSAID, Batch, Removed, Stored
from pellucid.core.clock import Anchor
from pellucid.store.schema import KV_RESIDENCY
from pellucid.store.write import Row

Emit = Callable[[Row], None]          # takes a row of kv_residency
Block = tuple[str, int | None, bytes]  # tier, KV cache group, hash


@dataclass(slots=True)
class Counts:
    batches: int = 0
    stored: int = 0
    removed: int = 0
    cleared: int = 0
    stored_again: int = 0             # the hash had a life already: a second copy, or a report of a hit
    never_seen_stored: int = 0        # removed without a life: cached before recording began, or in a gap
    closed_unknown: int = 0           # by lost messages, or a restart of the engine
    unknown_kinds: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Lives:
    emit: Emit
    key: bytes                        # of the site
    anchor: Anchor
    provenance: dict[str, Any]
    counts: Counts = field(default_factory=Counts)
    open: dict[Block, deque[tuple[int, int | None]]] = field(default_factory=dict)   # → cached_ns, tokens; oldest first

    def take(self, batch: Batch) -> None:
        now = self.anchor.mono(batch.wall_ns)
        self.provenance["dp_rank"] = batch.dp_rank
        self.counts.batches += 1
        for kind, times in batch.unknown.items():
            self.counts.unknown_kinds[kind] = self.counts.unknown_kinds.get(kind, 0) + times
        for event in batch.events:
            if isinstance(event, Stored):
                self._stored(event, now)
            elif isinstance(event, Removed):
                self._removed(event, now)
            else:
                self.counts.cleared += 1
                self._close(lambda block: block[0] == UNSAID, now, "cleared")
                self._close(lambda _: True, None, "unknown")

    def lose(self) -> None:
        """Messages are gone for good."""
        self.counts.closed_unknown += self._close(lambda _: True, None, "unknown")

    def end(self) -> None:
        """Writes what is still there."""
        self._close(lambda _: True, None, None)

    def _stored(self, event: Stored, now: int) -> None:
        for digest in event.hashes:
            block = (event.tier, event.group, digest)
            self.counts.stored += 1
            if block in self.open:
                self.counts.stored_again += 1
            self.open.setdefault(block, deque()).append((now, event.tokens))

    def _removed(self, event: Removed, now: int) -> None:
        for digest in event.hashes:
            block = (event.tier, event.group, digest)
            self.counts.removed += 1
            lives = self.open.get(block)
            if lives is None:
                self.counts.never_seen_stored += 1
                self._write(block, (None, None), now, "evicted")
                continue
            self._write(block, lives.popleft(), now, "evicted")
            if not lives:
                del self.open[block]

    def _close(self, which: Callable[[Block], bool], removed_ns: int | None, reason: str | None) -> int:
        closing = [block for block in self.open if which(block)]
        lives = [(block, life) for block in closing for life in self.open.pop(block)]
        for block, life in lives:
            self._write(block, life, removed_ns, reason)
        return len(lives)

    def _write(
        self, block: Block, life: tuple[int | None, int | None], removed_ns: int | None, reason: str | None
    ) -> None:
        tier, group, digest = block
        known = {
            **self.provenance, "block_hash": keyed_hash(self.key, digest), "tier": tier, "kv_group": group,
            "cached_ns": life[0], "tokens": life[1], "removed_ns": removed_ns, "removed_reason": reason,
            "stands_for_count": 1,
        }  # fmt: skip
        self.emit(tuple(known.get(name) for name in KV_RESIDENCY.names()))
