"""KV events that somebody saved → the same rows as from a socket.

    capture   what a subscriber received, little-endian: f64 UNIX time, u32 count, then each frame: u32 length, bytes
    JSON      one event: {"type" or "event_type": "BlockStored", "block_hashes": […], …}

Times are UNIX time here: a file has no monotonic clock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pellucid.collect.facts import fact_row
from pellucid.collect.kv_events.follow import Append, facts, source_row
from pellucid.collect.kv_events.lives import Lives
from pellucid.collect.kv_events.stream import Stream
from pellucid.collect.kv_events.wire import SEQUENCE_BYTES, Unreadable, decode
from pellucid.core.clock import Anchor
from pellucid.core.packed import content

MOST_FRAMES = 16          # a message has three
UNIX = Anchor(0, 0)


def is_capture(head: bytes) -> bool:
    """Whether the file begins with a whole message."""
    first = next(messages(head), [])
    if len(first) != 3 or len(first[1]) != SEQUENCE_BYTES:
        return False
    try:
        decode(first[2])
    except Unreadable:
        return False
    return True


def is_event(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"block_hashes"' in head


def read_capture(path: Path, key: bytes, append: Append) -> Stream:
    """Raises OSError. A capture that is cut ends with its last whole message."""
    stream = _stream(path, key, append)
    for message in messages(content(path)):
        stream.live(message)
    return _ended(stream, path, append)


def read_event(path: Path, key: bytes, append: Append) -> Stream:
    """Raises OSError and Unreadable. The time is the file's: the event has none."""
    stream = _stream(path, key, append)
    try:
        event = msgspec.json.decode(content(path), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Unreadable(f"{path.name}: {error}") from error
    event.setdefault("type", event.pop("event_type", ""))
    payload = msgspec.msgpack.encode([path.stat().st_mtime, [event], None])
    decode(payload)
    stream.live([b"", bytes(SEQUENCE_BYTES), payload])
    return _ended(stream, path, append)


def messages(data: bytes) -> Iterator[list[bytes]]:
    """Whole messages only."""
    at = 0
    while at + 12 <= len(data):
        (count,), at, frames = struct.unpack_from("<I", data, at + 8), at + 12, []
        if count > MOST_FRAMES:
            return
        for _ in range(count):
            if at + 4 > len(data):
                return
            (size,) = struct.unpack_from("<I", data, at)
            if at + 4 + size > len(data):
                return
            frames.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        yield frames


def _stream(path: Path, key: bytes, append: Append) -> Stream:
    provenance = {"deployment": "default", "process": path.name}
    return Stream(Lives(lambda row: append("kv_residency", row), key, UNIX, provenance), may_replay=False)


def _ended(stream: Stream, path: Path, append: Append) -> Stream:
    stream.end()
    append("sources", source_row(stream, UNIX))
    who = {"process": path.name, "role": "kv_events", "engine_version": None}
    for fact, seen in facts(stream, path.name).items():
        append("facts", fact_row(who, fact, seen))
    return stream

