"""Records of KV block lives, engine core. Written and read here, as in records.py; what is frequent is packed.

    KV_PROMPT    after ADD     hashes of the prompt's blocks, fingerprints of some, salt and LoRA, multimodal inputs
    KV_MORE      before a request lets go of its blocks: hashes of the blocks behind the prompt
    KV_TABLE     which blocks a request holds: at an admission, more of them, or all before it lets go
    KV_TAKEN     blocks handed out for new contents: what they held is evicted
    KV_FREED     blocks given back once
    KV_CLEARED   the whole prefix cache was emptied
    KV_LOST      nobody looked for a while: what is held and cached is not known any more
    KV_TIER      blocks go to an outer tier, come back from it, or are thrown out of it

A hash is the first 8 bytes of the engine's own, which covers all tokens before and is never the tokens themselves; the
recorder keys it before anything is written to disk. A fingerprint is of one block's tokens alone, without its past, and
keyed here: it tells that the same text came before behind other tokens, under another salt or LoRA; one that is adrift,
that it came before in another place. Of images and
sounds the tokens are placeholders, the same for each: a print of what the engine knows an input by, and all inputs
before it, is keyed here and stands at the block in which the input begins.
"""

from __future__ import annotations

import struct
from array import array
from typing import List, NamedTuple, Optional, Sequence, Tuple

KV_PROMPT, KV_MORE, KV_TABLE, KV_TAKEN, KV_FREED, KV_CLEARED, KV_LOST, KV_TIER = range(40, 48)
SHIFTED = 0xFFFFFFFF    # place of the fingerprint of the first block's length from the second token on
ADRIFT = 0x80000000     # and the block index: place of the fingerprint of a few tokens that may stand anywhere in it
LOOKED_AT = 4096        # tokens of a prompt, for those: to mark and print so many takes an eighth of a millisecond
MARKS = 32              # fingerprints of a prompt that are adrift: of many, the smallest, so the same text has the same
# What became of blocks of an outer tier.
TIER_STORING, TIER_STORED, TIER_FAILED, TIER_LOADED, TIER_EVICTED, TIER_CLEARED = range(6)
UNSEEN = 0xFFFFFFFF     # as the number of multimodal inputs: the engine does not show them
ADMITTED, MORE, WHOLE = 0, 1, 2     # of a table: replaces the one before, is appended to it, is all of it at the end

Placed = Sequence[Tuple[int, bytes]]    # block index or KV cache group, 8 bytes

_PROMPT = struct.Struct("<IIIIQQIII")
_MORE = struct.Struct("<II")
_TABLE = struct.Struct("<IIHHI")
_TIME = struct.Struct("<Q")
_TIER = struct.Struct("<QII")


class Prompt(NamedTuple):
    request: int
    block_tokens: int
    prompt_tokens: int
    skipped: int                         # the engine does not look this one up
    salt: int                            # keyed; 0 for none
    lora: int                            # keyed; 0 for none
    hashes: List[bytes]                  # 8 bytes each, of blocks 0, 1, 2, …
    prints: List[Tuple[int, bytes]]      # block index, SHIFTED, or ADRIFT + block index; 8 bytes
    inputs: Optional[List[Tuple[int, bytes]]]    # multimodal: index of its first block, 8 bytes; None: not shown


def pack_prompt(
    prompt: "tuple[int, ...]", hashes: Sequence[bytes], prints: Placed, inputs: Optional[Placed] = ()
) -> bytes:
    """The first six fields of a Prompt, then its lists."""
    inputs_count = UNSEEN if inputs is None else len(inputs)
    head = _PROMPT.pack(*prompt, len(hashes), len(prints), inputs_count)
    return b"".join((head, *hashes, *_placed(prints), *_placed(inputs or ())))


def unpack_prompt(payload: bytes) -> Prompt:
    *fields, count, sampled, inputs_count = _PROMPT.unpack_from(payload)
    at = _PROMPT.size + 8 * count
    hashes, prints = _split(payload[_PROMPT.size : at]), _unplaced(payload[at : at + 12 * sampled])
    inputs = None if inputs_count == UNSEEN else _unplaced(payload[at + 12 * sampled :])
    return Prompt(*fields, hashes, prints, inputs)  # type: ignore[call-arg]


def pack_more(request: int, first_index: int, hashes: Sequence[bytes]) -> bytes:
    return _MORE.pack(request, first_index) + b"".join(hashes)


def unpack_more(payload: bytes) -> Tuple[int, int, List[bytes]]:
    """Request, index of the first block, hashes."""
    request, first_index = _MORE.unpack_from(payload)
    return request, first_index, _split(payload[_MORE.size :])


class BlockTable(NamedTuple):
    request: int
    step: int          # 0 when it is not of a step
    kind: int
    kv_group: int
    blocks: List[int]  # ids; 0 is the null block


def pack_table(request: int, step: int, kind: int, kv_group: int, blocks: Sequence[int]) -> bytes:
    return _TABLE.pack(request, step & 0xFFFFFFFF, kind, kv_group, len(blocks)) + array("I", blocks).tobytes()


def unpack_table(payload: bytes) -> BlockTable:
    request, step, kind, kv_group, _ = _TABLE.unpack_from(payload)
    return BlockTable(request, step, kind, kv_group, array("I", payload[_TABLE.size :]).tolist())


def pack_blocks(time_ns: int, blocks: Sequence[int]) -> bytes:
    """For KV_TAKEN, KV_FREED, KV_CLEARED and KV_LOST."""
    return _TIME.pack(time_ns) + array("I", blocks).tobytes()


def unpack_blocks(payload: bytes) -> Tuple[int, List[int]]:
    """Time, block ids."""
    return _TIME.unpack_from(payload)[0], array("I", payload[_TIME.size :]).tolist()


class TierBlocks(NamedTuple):
    what: int
    time_ns: int
    request: int                         # 0 when it is of none, or of one that is gone
    blocks: List[Tuple[int, bytes]]      # KV cache group, 8 bytes of hash


def pack_tier(what: int, time_ns: int, request: int, blocks: Placed) -> bytes:
    return b"".join((_TIER.pack(time_ns, request, what), *_placed(blocks)))


def unpack_tier(payload: bytes) -> TierBlocks:
    time_ns, request, what = _TIER.unpack_from(payload)
    return TierBlocks(what, time_ns, request, _unplaced(payload[_TIER.size :]))


def _placed(items: Placed) -> "tuple[bytes, ...]":
    return (array("I", [at for at, _ in items]).tobytes(), *[text for _, text in items])


def _unplaced(data: bytes) -> List[Tuple[int, bytes]]:
    """Twelve bytes each: all places, then all texts."""
    texts = 4 * (len(data) // 12)
    return list(zip(array("I", data[:texts]).tolist(), _split(data[texts:])))


def _split(data: bytes) -> List[bytes]:
    return [data[at : at + 8] for at in range(0, len(data), 8)]
