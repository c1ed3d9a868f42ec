"""Why a prompt's block was not found in the prefix cache.

    evicted        its hash was cached once and is no more
    salt, lora     the same tokens in the same place were asked for under another salt or LoRA
    multimodal     the same tokens in the same place came before with other images or sounds, in the block or before it
    tokenisation   the same tokens in the same place came before behind other leading tokens, or shifted by one
    never_seen     none of these

A hash covers all tokens before it, so what is alike behind a difference can be seen by fingerprints only, and those are
of some blocks (the probe's SAMPLED). A block without one shares the reason of the nearest that has one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable

from pellucid.collect.kv.asked import Asked
from pellucid.collect.kv.remembered import Remembered

REASONS = ("evicted", "salt", "lora", "multimodal", "tokenisation", "skipped", "never_seen")
CONTEXTS = 4              # remembered for one fingerprint
REMEMBERED = 100_000      # fingerprints

Context = tuple[int, int, bytes | None, bytes]     # salt, LoRA, multimodal inputs, hash with all that came before


class Misses:
    """Remembers what was asked for, and tells the reason of a miss. `was_cached` knows the hashes that were removed."""

    def __init__(self, was_cached: Callable[[bytes], bool]) -> None:
        self._was_cached = was_cached
        self._seen: Remembered[Hashable, tuple[Context, ...]] = Remembered(REMEMBERED)

    def reasons(self, asked: Asked, first: int) -> list[str]:
        """Of the blocks from `first` on that could have been found."""
        blocks = range(first, asked.findable_blocks)
        if asked.skipped:
            return ["skipped"] * len(blocks)
        places = sorted(asked.prints)
        by_place = {at: self._by_print(asked, at) for at in places if at >= first}
        found = []
        for block in blocks:
            if self._was_cached(asked.hashes[block]):
                found.append("evicted")
                continue
            at = bisect_right(places, block) - 1
            near = places[at] if at >= 0 and places[at] >= first else next((p for p in places if p > block), None)
            found.append(by_place.get(near, "never_seen") if near is not None else "never_seen")
        if found and found[0] == "never_seen" and self._differs_before(asked, first, by_place):
            found[0] = "tokenisation"
        return found

    def remember(self, asked: Asked) -> None:
        for at, text in asked.prints.items():
            self._note((at, text), _context(asked, at))
        if asked.shifted is not None and asked.prints:
            self._note(("shifted", asked.shifted), _context(asked, 0))

    def _by_print(self, asked: Asked, at: int) -> str:
        contexts = self._seen.get((at, asked.prints[at])) or ()
        same = _context(asked, at)[:3]
        if any(context[:3] == same for context in contexts):
            return "tokenisation"     # not evicted, so what came before must differ
        if any(context[:2] == (asked.salt, asked.lora) for context in contexts):
            return "multimodal"
        if any(salt != asked.salt for salt, *_ in contexts):
            return "salt"
        return "lora" if contexts else "never_seen"

    def _differs_before(self, asked: Asked, first: int, by_place: dict[int, str]) -> bool:
        """The difference lies in the first missed block itself, and what follows is known; or all is shifted by one."""
        follows = next((at for at in sorted(by_place) if at > first), None)
        if follows is not None and by_place[follows] == "tokenisation":
            return True
        if first or 0 not in asked.prints:
            return False
        return ("shifted", asked.prints[0]) in self._seen or (0, asked.shifted) in self._seen

    def _note(self, key: Hashable, context: Context) -> None:
        contexts = self._seen.get(key) or ()
        if context not in contexts:
            contexts = (*contexts, context)[-CONTEXTS:]
        self._seen[key] = contexts


def _context(asked: Asked, at: int) -> Context:
    return asked.salt, asked.lora, asked.inputs_at(at), asked.hashes[at]
