"""KV blocks in an outer tier of one engine core: lives, as those on the device, and each time that one came back.

    about to be written ──▶ remembers for whom      written ──▶ a life begins      could not be ──▶ nothing was
    brought back ──▶ a row of kv_onboards            thrown out, all cleared ──▶ the life ends, a row of kv_residency

What was there before the recording has a life without a beginning. Where there are very many, rows stand for others as
those of the device do, by the hash, so that an onboard is written if its block's life is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pellucid_probe import kv_records as kv
from pellucid_probe.process import keyed_hash

from pellucid.collect.kv.pace import Pace
from pellucid.store.schema import KV_ONBOARDS, KV_RESIDENCY
from pellucid.store.write import Row

TIER = "cpu"        # the only one whose manager the probe looks at
Block = tuple[int, bytes]       # KV cache group, hash


@dataclass(slots=True)
class Life:
    request: int | None
    cached_ns: int | None
    last_used_ns: int | None
    hits: int = 0


class Tiers:
    def __init__(
        self, provenance: Callable[[], dict[str, Any]], append: Callable[[str, Row], None], key: bytes | None
    ) -> None:
        self._provenance, self._append, self._key = provenance, append, key
        self._coming: dict[Block, int] = {}         # about to be written → for which request
        self._lives: dict[Block, Life] = {}
        self._pace = Pace()

    def take(self, payload: bytes) -> None:
        told = kv.unpack_tier(payload)
        for block in told.blocks:
            if told.what == kv.TIER_STORING:
                self._coming[block] = told.request
            elif told.what == kv.TIER_STORED:
                self._stored(block, told.time_ns)
            elif told.what == kv.TIER_FAILED:
                self._coming.pop(block, None)
            elif told.what == kv.TIER_LOADED:
                self._loaded(block, told.request, told.time_ns)
            else:
                life = self._lives.pop(block, None) or Life(None, None, None)
                self._write(block, life, told.time_ns, "evicted", told.request)
        if told.what == kv.TIER_CLEARED:
            self._close_all(told.time_ns, "cleared")

    def lost(self) -> None:
        """Nobody looked for a while: what was there may be gone."""
        self._close_all(None, "unknown")

    def end(self) -> None:
        """The recording ends: what is there is written as it is."""
        self._close_all(None, None)

    def _stored(self, block: Block, time_ns: int) -> None:
        """Once: a store of what is there already changes nothing."""
        request = self._coming.pop(block, None)
        if request is not None or block not in self._lives:
            self._lives[block] = Life(request or None, time_ns, time_ns)

    def _loaded(self, block: Block, request: int, time_ns: int) -> None:
        life = self._lives.setdefault(block, Life(None, None, None))
        if self._pace.keeps(block[1], time_ns):
            row: dict[str, Any] = {
                **self._provenance(), "block_hash": self._hash(block), "tier": TIER, "kv_group": block[0],
                "time_ns": time_ns, "request": request or None, "stands_for_count": self._pace.every,
                "age_ns": None if life.cached_ns is None else time_ns - life.cached_ns,
                "idle_ns": None if life.last_used_ns is None else time_ns - life.last_used_ns,
            }  # fmt: skip
            self._append("kv_onboards", tuple(row.get(name) for name in KV_ONBOARDS.names()))
        life.hits += 1
        life.last_used_ns = time_ns

    def _close_all(self, time_ns: int | None, reason: str | None) -> None:
        self._coming.clear()
        for block, life in self._lives.items():
            self._write(block, life, time_ns, reason, 0)
        self._lives.clear()

    def _write(self, block: Block, life: Life, time_ns: int | None, reason: str | None, by: int) -> None:
        if not self._pace.keeps(block[1], time_ns or life.last_used_ns or 0):
            return
        row: dict[str, Any] = {
            **self._provenance(), "block_hash": self._hash(block), "tier": TIER, "kv_group": block[0],
            "removed_reason": reason, "request": life.request, "cached_ns": life.cached_ns,
            "last_used_ns": life.last_used_ns, "removed_ns": time_ns, "removed_by": by or None,
            "hits_count": life.hits, "stands_for_count": self._pace.every,
        }  # fmt: skip
        self._append("kv_residency", tuple(row.get(name) for name in KV_RESIDENCY.names()))

    def _hash(self, block: Block) -> str | None:
        return keyed_hash(self._key, block[1]) if self._key else None
