"""Why a prompt's block was not found in the prefix cache.

    evicted        its hash was cached once and is no more
    salt, lora     the same tokens in the same place were asked for under another salt or LoRA
    multimodal     the same tokens in the same place came before with other images or sounds, in the block or before it
    tokenisation   the same tokens came before behind other leading tokens: in the same place or anywhere else
    never_seen     none of these

A hash covers all tokens before it, so what is alike behind a difference can be seen by fingerprints only, and those are
of some blocks (the probe's SAMPLED) and of some windows of a few tokens (its marks), which may stand anywhere. A block
without one shares the reason of the nearest that has one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable
from operator import itemgetter

from pellucid_probe.kv_records import LOOKED_AT, MARKS

from pellucid.collect.kv.asked import Asked
from pellucid.collect.kv.remembered import Remembered

REASONS = ("evicted", "salt", "lora", "multimodal", "tokenisation", "skipped", "never_seen")
CONTEXTS = 4              # remembered for one fingerprint
REMEMBERED = 100_000      # fingerprints
# Windows: one at the edge of what is chosen, or looked at, may not have been the last time, behind a little more.
ASKED, ASKED_UP_TO = MARKS * 3 // 4, LOOKED_AT * 7 // 8

Context = tuple[int, int, bytes | None]     # salt, LoRA, multimodal inputs
Memory = Remembered[Hashable, tuple[Context, ...]]


class Misses:
    """Remembers what was asked for, and tells the reason of a miss. `was_cached` knows the hashes that were removed."""

    def __init__(self, was_cached: Callable[[bytes], bool]) -> None:
        self._was_cached = was_cached
        self._seen: Memory = Remembered(REMEMBERED)       # (block index, fingerprint) →
        self._adrift: Memory = Remembered(REMEMBERED)     # fingerprint of a window →

    def reasons(self, asked: Asked, first: int) -> list[str]:
        """Of the blocks from `first` on that could have been found."""
        blocks = range(first, asked.findable_blocks)
        if asked.skipped:
            return ["skipped"] * len(blocks)
        places = {at: _reason(self._seen.get((at, text)), _context(asked, at))
                  for at, text in asked.prints.items() if at >= first}  # fmt: skip
        windows = self._windows(asked, first)
        by_print, by_window = _from(places), _nearest(windows)
        found = []
        for block in blocks:
            if self._was_cached(asked.hashes[block]):
                found.append("evicted")
            else:
                reason = by_print(block)
                found.append(by_window(block) if reason == "never_seen" else reason)
        follows = found[1:2] == ["tokenisation"]
        if found and found[0] == "never_seen" and (follows or self._differs_before(asked, first, places)):
            found[0] = "tokenisation"
        return found

    def remember(self, asked: Asked) -> None:
        for at, text in asked.prints.items():
            _note(self._seen, (at, text), _context(asked, at))
        if asked.shifted is not None and asked.prints:
            _note(self._seen, ("shifted", asked.shifted), _context(asked, 0))
        for at, text in asked.adrift:
            _note(self._adrift, text, _context(asked, at))

    def _windows(self, asked: Asked, first: int) -> dict[int, str]:
        """By block; of several windows in one block, what is said of one that was seen."""
        found: dict[int, str] = {}
        chosen = sorted(asked.adrift, key=itemgetter(1))[:ASKED]
        for at, text in chosen:
            if first <= at <= ASKED_UP_TO // asked.block_tokens and found.get(at, "never_seen") == "never_seen":
                found[at] = _reason(self._adrift.get(text), _context(asked, at))
        return found

    def _differs_before(self, asked: Asked, first: int, by_place: dict[int, str]) -> bool:
        """The difference lies in the first missed block itself, and what follows is known; or all is shifted by one."""
        follows = next((at for at in sorted(by_place) if at > first), None)
        if follows is not None and by_place[follows] == "tokenisation":
            return True
        if first or 0 not in asked.prints:
            return False
        return ("shifted", asked.prints[0]) in self._seen or (0, asked.shifted) in self._seen


def _from(reasons: dict[int, str]) -> Callable[[int], str]:
    """Block → the reason of the last place at or before it, else of the first behind it."""
    places = sorted(reasons)
    return lambda block: reasons[places[max(0, bisect_right(places, block) - 1)]] if places else "never_seen"


def _nearest(reasons: dict[int, str]) -> Callable[[int], str]:
    """Block → the reason of the nearest place; of two as near, of the one behind."""
    places = sorted(reasons)

    def nearest(block: int) -> str:
        if not places:
            return "never_seen"
        behind = bisect_left(places, block)
        near = places[max(0, behind - 1) : behind + 1]
        return reasons[min(reversed(near), key=lambda at: abs(at - block))]

    return nearest


def _reason(contexts: tuple[Context, ...] | None, now: Context) -> str:
    """Of a block whose text was seen in these contexts."""
    if not contexts:
        return "never_seen"
    if now in contexts:
        return "tokenisation"     # not evicted, so what came before must differ
    if any(context[:2] == now[:2] for context in contexts):
        return "multimodal"
    return "salt" if any(salt != now[0] for salt, *_ in contexts) else "lora"


def _note(memory: Memory, key: Hashable, context: Context) -> None:
    contexts = memory.get(key) or ()
    if context not in contexts:
        contexts = (*contexts, context)[-CONTEXTS:]
    memory[key] = contexts     # also when nothing is new: what comes again is not forgotten


def _context(asked: Asked, at: int) -> Context:
    return asked.salt, asked.lora, asked.inputs_at(at)
