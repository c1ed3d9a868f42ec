"""Engine core: KV block lives. What the hooks of a few rare moments leave, packed on our thread.

    add_request          the prompt's block hashes and fingerprints, and what its images and sounds are
    an admission         the request's block table, from the engine's own plan
    get_new_blocks       the blocks that lose what they held
    free_blocks          the blocks given back
    a request lets go    its whole table, with the hashes of the blocks it wrote itself

No hook looks at a block: each keeps a reference, and ids are read here. While a request decodes nothing is recorded of
it but the blocks it takes; who took them, and what they came to hold, follows when it lets go.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

from pellucid_probe import kv_records as kv
from pellucid_probe.process import keyed_digest
from pellucid_probe.ring import Record
from pellucid_probe.vllm.kv.marks import WINDOW, marks

# Blocks that get a fingerprint: the first ones, then ever fewer. A prompt of 4,096 blocks has 22.
SAMPLED = (0, 1, 2, 3, 4, *(at << shift for shift in range(1, 11) for at in (3, 4)))

Inputs = Sequence[Tuple[str, int]]     # what the engine knows a multimodal input by, its first token; in order


class Lives:
    def __init__(self, key: bytes, number: Callable[[str], int]) -> None:
        self._key, self._number = key, number
        self._keyed_state = hashlib.blake2b(digest_size=8, key=key)
        self.block_tokens = 0
        self._prompts: "dict[int, int]" = {}     # request → whole blocks of its prompt

    def prompt(self, seen: Tuple[str, Sequence[Any], Any, int, bool, Any, Any, Optional[Inputs]]) -> List[Record]:
        """Internal id, block hashes, prompt token ids, prompt length, lookup skipped, salt, LoRA name, multimodal
        inputs (None: not shown)."""
        request_id, hashes, tokens, length, skipped, salt, lora, inputs = seen
        whole = min(len(hashes), length // self.block_tokens)
        number = self._number(request_id)
        self._prompts[number] = whole
        fields = (number, self.block_tokens, length, int(skipped), self._keyed(salt), self._keyed(lora))
        prints = self._prints(tokens, whole) if tokens is not None else []
        placed = None if inputs is None else self._placed(inputs)
        return [(kv.KV_PROMPT, kv.pack_prompt(fields, [_short(h) for h in hashes[:whole]], prints, placed))]

    def admitted(self, request: int, step: int, blocks: Iterable[Sequence[int]]) -> List[Record]:
        """Block ids by KV cache group, as the plan has them."""
        return self._tables(request, step, kv.ADMITTED, blocks)

    def more(self, request: int, step: int, blocks: Iterable[Sequence[int]]) -> List[Record]:
        return self._tables(request, step, kv.MORE, blocks)

    def let_go(self, seen: Tuple[str, Any, Sequence[Any], bool]) -> List[Record]:
        """Internal id, blocks by group, block hashes, whether it will not come back."""
        request_id, blocks, hashes, for_good = seen
        request = self._number(request_id)
        first = self._prompts.pop(request, 0) if for_good else self._prompts.get(request, 0)
        more = [_short(h) for h in hashes[first:]]
        ids = ([block.block_id for block in group] for group in blocks)
        found: List[Record] = [(kv.KV_MORE, kv.pack_more(request, first, more))] if more else []
        return found + self._tables(request, 0, kv.WHOLE, ids)

    def taken(self, seen: Tuple[int, List[Any]]) -> List[Record]:
        """Time, lists of blocks."""
        time_ns, lists = seen
        return [(kv.KV_TAKEN, kv.pack_blocks(time_ns, [block.block_id for blocks in lists for block in blocks]))]

    def freed(self, seen: Tuple[int, List[Any]]) -> List[Record]:
        """Time, blocks."""
        time_ns, blocks = seen
        return [(kv.KV_FREED, kv.pack_blocks(time_ns, [block.block_id for block in blocks]))]

    def cleared(self, time_ns: int) -> List[Record]:
        return [(kv.KV_CLEARED, kv.pack_blocks(time_ns, ()))]

    def lost(self, time_ns: int) -> List[Record]:
        """Nobody looked for a while."""
        return [(kv.KV_LOST, kv.pack_blocks(time_ns, ()))]

    def _tables(self, request: int, step: int, kind: int, blocks: Iterable[Sequence[int]]) -> List[Record]:
        return [(kv.KV_TABLE, kv.pack_table(request, step, kind, group, ids)) for group, ids in enumerate(blocks)]

    def _prints(self, tokens: Sequence[int], whole: int) -> List[Tuple[int, bytes]]:
        size, key = self.block_tokens, self._key
        raw, step = array("q", tokens).tobytes(), 8 * size
        words = memoryview(raw)
        found = [(at, keyed_digest(key, words[at * step : (at + 1) * step])) for at in SAMPLED if at < whole]
        if whole and len(tokens) > size:
            found.append((kv.SHIFTED, keyed_digest(key, words[8 : step + 8])))
        adrift = {}
        for at in marks(raw[::8]):
            print_ = self._keyed_state.copy()      # half as long as to begin with the key each time
            print_.update(words[8 * at : 8 * (at + WINDOW)])
            adrift[print_.digest()] = at // size
        return found + sorted((kv.ADRIFT + adrift[text], text) for text in sorted(adrift)[: kv.MARKS])

    def _placed(self, inputs: Inputs) -> List[Tuple[int, bytes]]:
        """By the block in which an input begins, a print of it and all before it; of several in a block, the last."""
        said, found = b"", {}
        for identifier, offset in inputs:
            said = keyed_digest(self._key, said + str(identifier).encode())
            found[offset // self.block_tokens] = said
        return list(found.items())

    def _keyed(self, value: Any) -> int:
        if value is None:
            return 0
        return int.from_bytes(keyed_digest(self._key, str(value).encode()), "little") or 1


def _short(block_hash: Any) -> bytes:
    if isinstance(block_hash, bytes) and len(block_hash) >= 8:
        return block_hash[:8]
    return hashlib.blake2b(repr(block_hash).encode(), digest_size=8).digest()    # engines with other kinds of hash
