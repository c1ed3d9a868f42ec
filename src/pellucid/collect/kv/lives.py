"""KV block lives of one engine core: which block holds what, since when, who used it, who took it.

    KV_PROMPT ──▶ Asked     KV_TAKEN ──▶ a life ends        KV_TABLE ──▶ lives begin or are hit
    KV_MORE   ──▶ Asked     KV_FREED ──▶ held once less     KV_CLEARED ──▶ all end

The probe tells few moments; the rest follows. A prompt's blocks are cached when they are scheduled. Those behind the
prompt become known when their request lets go: their times are laid evenly between the two. Who took a block becomes
known with the next table that has it, so an ended life waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid_probe import kv_records
from pellucid_probe.process import keyed_hash
from pellucid_probe.records import Admit

from pellucid.collect.kv.asked import Asked, asked
from pellucid.collect.kv.misses import REASONS, Misses
from pellucid.collect.kv.pace import Pace
from pellucid.collect.kv.remembered import Remembered
from pellucid.collect.kv.tiers import Tiers
from pellucid.collect.kv.turns import Turns
from pellucid.store.schema import KV_RESIDENCY, PREFIX_LOOKUPS
from pellucid.store.write import Row

REMEMBERED = 150_000        # hashes that were cached once

KINDS = frozenset((kv_records.KV_PROMPT, kv_records.KV_MORE, kv_records.KV_TABLE, kv_records.KV_TAKEN,
                   kv_records.KV_FREED, kv_records.KV_CLEARED, kv_records.KV_LOST, kv_records.KV_TIER))  # fmt: skip


@dataclass(slots=True)
class Gone:
    removed_ns: int | None
    removed_by: int | None = None


@dataclass(slots=True)
class Life:
    block_hash: bytes
    kv_group: int
    request: int | None
    cached_ns: int
    last_used_ns: int
    tokens: int
    hits: int = 0
    freed_ns: int | None = None
    gone: Gone | None = None
    removed_reason: str | None = None


class KvLives:
    def __init__(
        self, provenance: Callable[[], dict[str, Any]], append: Callable[[str, Row], None], key: bytes | None
    ) -> None:
        self._provenance, self._append, self._key = provenance, append, key
        self._asked: dict[int, Asked] = {}
        self._scheduled_ns: dict[int, int] = {}                # request → its last admission
        self._tables: dict[tuple[int, int], list[int]] = {}    # request, group → blocks it holds
        self._waiting: dict[int, list[kv_records.BlockTable]] = {}   # step → tables to apply when the step comes
        self._held: dict[int, int] = {}                        # block → requests that hold it
        self._lives: dict[int, Life] = {}                      # block → what it holds
        self._alive: dict[bytes, int] = {}                     # hash → lives
        self._ended: Remembered[bytes, Gone] = Remembered(REMEMBERED)
        self._unclaimed: dict[int, Life] = {}                  # block → the life that ended when it was taken
        self._misses = Misses(self._ended.__contains__)
        self._turns = Turns()
        self._now_ns = 0
        self._pace = Pace()
        self._tiers = Tiers(provenance, append, key)

    def take(self, kind: int, payload: bytes) -> None:
        if kind == kv_records.KV_TAKEN:
            self._taken(*kv_records.unpack_blocks(payload))
        elif kind == kv_records.KV_FREED:
            self._freed(*kv_records.unpack_blocks(payload))
        elif kind == kv_records.KV_TABLE:
            table = kv_records.unpack_table(payload)
            if table.kind == kv_records.WHOLE:
                self._whole(table)
            else:
                self._waiting.setdefault(table.step, []).append(table)
        elif kind == kv_records.KV_PROMPT:
            prompt = kv_records.unpack_prompt(payload)
            self._asked[prompt.request] = asked(prompt)
        elif kind == kv_records.KV_MORE:
            request, first, hashes = kv_records.unpack_more(payload)
            seen = self._asked.get(request)
            if seen is not None:
                seen.hashes[first:] = hashes
        elif kind == kv_records.KV_TIER:
            self._tiers.take(payload)
        elif kind == kv_records.KV_CLEARED:
            self._cleared(kv_records.unpack_blocks(payload)[0])
        else:
            self._lost()

    def step(self, step: int, time_ns: int, admits: Sequence[Admit]) -> None:
        """A step is over: who was admitted in it, in order, and the tables that came before it."""
        self._now_ns = max(self._now_ns, time_ns)
        tables: dict[int, list[kv_records.BlockTable]] = {}
        for table in self._waiting.pop(step & 0xFFFFFFFF, ()):
            tables.setdefault(table.request, []).append(table)
        for admit in admits:
            seen = self._asked.get(admit.request)
            if seen is None:
                continue
            self._scheduled_ns[admit.request] = time_ns
            if not admit.again:
                self._lookup(admit.request, seen, time_ns, admit.computed)
                self._misses.remember(seen)
            self._apply(tables.pop(admit.request, []), seen, admit.computed // seen.block_tokens, time_ns)
        for request, more in tables.items():
            seen = self._asked.get(request)
            if seen is not None:
                self._apply(more, seen, 0, time_ns)

    def finished(self, request: int) -> None:
        """After its last hashes came."""
        if (seen := self._asked.get(request)) is not None:
            self._turns.ended(request, seen)

    def forget(self, request: int) -> None:
        """Nothing more comes of this request."""
        self._asked.pop(request, None)
        self._scheduled_ns.pop(request, None)

    def _apply(self, tables: list[kv_records.BlockTable], seen: Asked, hits: int, time_ns: int) -> None:
        """Takes blocks into a request's tables; the first `hits` of them were found, the rest will hold its prompt."""
        for table in tables:
            key = (table.request, table.kv_group)
            held = [] if table.kind == kv_records.ADMITTED else self._tables.get(key, [])
            if table.kind == kv_records.MORE and len(held) >= seen.prompt_blocks:
                continue    # behind the prompt: known when it lets go
            for index, block in enumerate(table.blocks, start=len(held)):
                if not block:
                    continue
                self._hold(table.request, block)
                if index < min(hits, len(seen.hashes)):
                    self._hit(block, seen, index, table.kv_group, time_ns)
                elif index < seen.prompt_blocks:
                    self._begin(block, seen, index, table.kv_group, table.request, time_ns)
            self._tables[key] = held + table.blocks

    def end(self) -> None:
        """The recording ends: lives that go on are written as they are."""
        for life in (*self._unclaimed.values(), *self._lives.values()):
            self._emit(life)
        self._unclaimed.clear()
        self._lives.clear()
        self._tiers.end()

    def _lookup(self, request: int, seen: Asked, time_ns: int, computed: int) -> None:
        size, first = seen.block_tokens, computed // seen.block_tokens
        reasons = self._misses.reasons(seen, first)
        tokens = dict.fromkeys(REASONS, 0)
        for index, reason in enumerate(reasons):
            tokens[reason] += size if index else size - computed % size
        gone = self._ended.get(seen.hashes[first]) if reasons and reasons[0] == "evicted" else None
        row: dict[str, Any] = {
            **self._provenance(), "family": seen.prints[0].hex() if 0 in seen.prints else None,
            "miss_reason": reasons[0] if reasons else None, "request": request, "time_ns": time_ns,
            "prompt_tokens": seen.prompt_tokens, "cached_tokens": computed,
            **{f"{reason}_tokens": count for reason, count in tokens.items()},
            "tail_tokens": seen.prompt_tokens - computed - sum(tokens.values()),
            "follows": self._turns.followed_by(seen),
        }  # fmt: skip
        if gone is not None:
            age_ns = None if gone.removed_ns is None else max(0, time_ns - gone.removed_ns)
            row |= {"evicted_age_ns": age_ns, "evicted_by": gone.removed_by}
        self._append("prefix_lookups", tuple(row.get(name) for name in PREFIX_LOOKUPS.names()))

    def _hold(self, request: int, block: int) -> None:
        self._held[block] = self._held.get(block, 0) + 1
        taken = self._unclaimed.pop(block, None)
        if taken is not None:
            if taken.gone is not None:
                taken.gone.removed_by = request
            self._emit(taken)

    def _hit(self, block: int, seen: Asked, index: int, kv_group: int, time_ns: int) -> None:
        life = self._lives.get(block)
        if life is None:    # cached before we looked, or by a request that still runs
            life = self._begin(block, seen, index, kv_group, None, time_ns)
        life.hits += 1
        life.last_used_ns, life.freed_ns = time_ns, None

    def _begin(self, block: int, seen: Asked, index: int, kv_group: int, request: int | None, time_ns: int) -> Life:
        if block in self._lives:
            self._close(block, time_ns, "evicted")
        life = Life(seen.hashes[index], kv_group, request, time_ns, time_ns, seen.block_tokens)
        self._lives[block] = life
        self._alive[life.block_hash] = self._alive.get(life.block_hash, 0) + 1
        self._ended.forget(life.block_hash)
        return life

    def _whole(self, table: kv_records.BlockTable) -> None:
        """A request lets go: the blocks it took while it decoded are held a moment, those that are full live on."""
        seen, key = self._asked.get(table.request), (table.request, table.kv_group)
        before = self._tables.pop(key, [])
        if seen is None:
            return
        known = set(before)
        from_ns = self._scheduled_ns.get(table.request, self._now_ns)
        own = len(seen.hashes) * seen.block_tokens - seen.prompt_tokens      # behind the prompt, in whole blocks
        for index, block in enumerate(table.blocks):
            if not block or block in known:
                continue
            self._hold(table.request, block)
            if index < len(seen.hashes):
                done = (index + 1) * seen.block_tokens - seen.prompt_tokens
                share = min(1.0, max(0.0, done / own)) if own > 0 else 0.0
                at_ns = from_ns + int(share * (self._now_ns - from_ns))
                self._begin(block, seen, index, table.kv_group, table.request, at_ns)

    def _taken(self, time_ns: int, blocks: list[int]) -> None:
        self._now_ns = max(self._now_ns, time_ns)
        for block in blocks:
            self._held.pop(block, None)
            if block in self._lives:
                self._unclaimed[block] = self._close(block, time_ns, "evicted")

    def _freed(self, time_ns: int, blocks: list[int]) -> None:
        for block in blocks:
            left = self._held.get(block, 1) - 1
            if left > 0:
                self._held[block] = left
                continue
            self._held.pop(block, None)
            life = self._lives.get(block)
            if life is not None:
                life.freed_ns = time_ns

    def _cleared(self, time_ns: int) -> None:
        for block in list(self._lives):
            self._emit(self._close(block, time_ns, "cleared"))

    def _lost(self) -> None:
        """What was there may be gone: every life is closed as unknown, without a time, as after a lost event."""
        for block in list(self._lives):
            self._emit(self._close(block, None, "unknown"))
        self._held.clear()
        self._tables.clear()
        self._waiting.clear()
        self._tiers.lost()

    def _close(self, block: int, time_ns: int | None, reason: str) -> Life:
        life = self._lives.pop(block)
        life.gone, life.removed_reason = Gone(time_ns), reason
        left = self._alive[life.block_hash] - 1
        if left:
            self._alive[life.block_hash] = left
        else:
            del self._alive[life.block_hash]
            self._ended[life.block_hash] = life.gone
        return life

    def _emit(self, life: Life) -> None:
        if not self._pace.keeps(life.block_hash, self._now_ns):
            return
        gone = life.gone
        row: dict[str, Any] = {
            **self._provenance(), "block_hash": keyed_hash(self._key, life.block_hash) if self._key else None,
            "tier": "device", "removed_reason": life.removed_reason, "kv_group": life.kv_group,
            "request": life.request, "cached_ns": life.cached_ns, "last_used_ns": life.last_used_ns,
            "freed_ns": life.freed_ns, "removed_ns": gone.removed_ns if gone else None,
            "removed_by": gone.removed_by if gone else None, "hits_count": life.hits, "tokens": life.tokens,
            "stands_for_count": self._pace.every,
        }  # fmt: skip
        self._append("kv_residency", tuple(row.get(name) for name in KV_RESIDENCY.names()))
