"""KV event messages as engines publish them → batches. Bytes in, values out; nothing is read or kept here.

    payload  msgpack of [time_s, [event, …], dp_rank]
    event    {"type": "BlockStored", "block_hashes": […], "token_ids": […], "block_size": 16, "medium": "GPU", …}
             or, from older releases, ["BlockStored", block_hashes, parent, token_ids, block_size, lora_id, medium]

Token ids, extra keys (salt, image hashes), LoRA names and session ids are user content: they have no field below, so
the decoder steps over their bytes and no value is ever made of them. Block hashes are unkeyed here; whoever keeps them
keys them first (`lives.py`). Fields that a later release adds are stepped over too; kinds it adds are counted.

An event of a known kind that does not decode makes the whole batch unreadable, since it may have been a removal.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

SEQUENCE_BYTES = 8
END = b"\xff" * SEQUENCE_BYTES       # sequence −1: the end of a replay
HASH_BYTES = 8                       # engines publish 64-bit integers, or whole digests of which these are the last
TIERS = {"GPU": "device", "CPU": "cpu", "CPU_PINNED": "cpu", "STORAGE": "disk", "DISK": "disk"}
UNSAID = "device"                    # releases without the field had no other tier
_ARRAYS = (0x90, 0xDC, 0xDD)         # first byte of a msgpack array: short (high half), 16 and 32 bit


class Unreadable(Exception):
    """A payload that is not what its publisher would send: cut, damaged, or of another protocol."""


@dataclass(frozen=True, slots=True)
class Stored:
    hashes: tuple[bytes, ...]
    tokens: int | None               # in each block; None where the event does not know
    tier: str
    group: int | None                # KV cache group


@dataclass(frozen=True, slots=True)
class Removed:
    hashes: tuple[bytes, ...]
    tier: str
    group: int | None


@dataclass(frozen=True, slots=True)
class Cleared:
    pass


@dataclass(frozen=True, slots=True)
class Batch:
    wall_ns: int                     # when it was published, by the engine's clock
    dp_rank: int | None
    events: tuple[Stored | Removed | Cleared, ...]
    unknown: Counter[str] = field(default_factory=Counter)   # kinds we do not know → how many


Hash = int | bytes


class _Envelope(msgspec.Struct, array_like=True):
    time_s: float
    events: list[msgspec.Raw]
    dp_rank: int | None = None


class _Kind(msgspec.Struct):
    type: str


class _KindFirst(msgspec.Struct, array_like=True):
    type: str


class _Stored(msgspec.Struct):
    block_hashes: list[Hash]
    block_size: int | None = None
    medium: str | None = None
    group_idx: int | None = None


class _StoredArray(msgspec.Struct, array_like=True):
    type: str
    block_hashes: list[Hash]
    parent: msgspec.Raw = msgspec.Raw()
    tokens: msgspec.Raw = msgspec.Raw()      # left as bytes, and dropped with this struct
    block_size: int | None = None
    lora: msgspec.Raw = msgspec.Raw()
    medium: str | None = None


class _Removed(msgspec.Struct):
    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: int | None = None


class _RemovedArray(msgspec.Struct, array_like=True):
    type: str
    block_hashes: list[Hash]
    medium: str | None = None


T = TypeVar("T")


def decode(payload: bytes) -> Batch:
    """Raises Unreadable."""
    envelope = _as(_Envelope, payload)
    events: list[Stored | Removed | Cleared] = []
    unknown: Counter[str] = Counter()
    for raw in envelope.events:
        event = _event(bytes(raw))
        if isinstance(event, str):
            unknown[event] += 1
        else:
            events.append(event)
    if not 0 <= envelope.time_s < 2**33:      # until the year 2242
        raise Unreadable(f"it says it was published at {envelope.time_s!r}")
    return Batch(int(envelope.time_s * 1e9), envelope.dp_rank, tuple(events), unknown)


def sequence(frame: bytes) -> int:
    """Raises Unreadable."""
    if len(frame) != SEQUENCE_BYTES:
        raise Unreadable(f"a sequence number of {len(frame)} bytes")
    return int.from_bytes(frame, "big")


def _event(raw: bytes) -> Stored | Removed | Cleared | str:
    """The event, or the kind's name where we do not know it."""
    array = raw[0] & 0xF0 == _ARRAYS[0] or raw[0] in _ARRAYS[1:]
    kind = _as(_KindFirst, raw).type if array else _as(_Kind, raw).type
    if kind == "BlockStored":
        return _stored_array(_as(_StoredArray, raw)) if array else _stored(_as(_Stored, raw))
    if kind == "BlockRemoved" and array:
        old = _as(_RemovedArray, raw)
        return Removed(_hashes(old.block_hashes), tier(old.medium), None)
    if kind == "BlockRemoved":
        seen = _as(_Removed, raw)
        return Removed(_hashes(seen.block_hashes), tier(seen.medium), seen.group_idx)
    return Cleared() if kind == "AllBlocksCleared" else kind[:60]


def _stored(seen: _Stored) -> Stored:
    """An offload tier publishes hashes without contents, with a size of 0: that is "not said", not "empty"."""
    return Stored(_hashes(seen.block_hashes), seen.block_size or None, tier(seen.medium), seen.group_idx)


def _stored_array(seen: _StoredArray) -> Stored:
    return Stored(_hashes(seen.block_hashes), seen.block_size or None, tier(seen.medium), None)


def tier(medium: str | None) -> str:
    return UNSAID if medium is None else TIERS.get(medium.upper(), medium.lower()[:40])


def _hashes(found: list[Hash]) -> tuple[bytes, ...]:
    """One form for both: a whole digest and the integer that is its end are the same block."""
    return tuple(h[-HASH_BYTES:] if isinstance(h, bytes) else (h % 2**64).to_bytes(HASH_BYTES, "big") for h in found)


_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def _as(kind: type[T], raw: bytes) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        found: T = decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    return found
