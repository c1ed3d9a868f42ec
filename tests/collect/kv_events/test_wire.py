"""Payloads of several releases, and payloads that are broken."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from pellucid.collect.kv_events.wire import Cleared, Removed, Stored, Unreadable, decode, sequence
from tests.collect.kv_events.publisher import CLEARED, batch, removed, stored
from tests.conftest import shared_data

ONE, TWO = (1).to_bytes(8, "big"), (2**64 - 1).to_bytes(8, "big")


def messages() -> Iterator[list[bytes]]:
    """Of a SUB socket before a real engine: time, count, then length and bytes of each frame. The last one is cut."""
    data = gzip.decompress(shared_data("h200_vllm024/kv_events_head.bin.gz").read_bytes())
    at = 0
    while at + 12 <= len(data):
        count, at, found = struct.unpack_from("<I", data, at + 8)[0], at + 12, []
        for _ in range(count):
            size = struct.unpack_from("<I", data, at)[0] if at + 4 <= len(data) else len(data)
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        yield found


def test_maps_and_arrays_say_the_same() -> None:
    maps = decode(batch([stored(1, 2**64 - 1), removed(1), CLEARED]))
    arrays = decode(batch([
        ["BlockStored", [1, -1], None, [5] * 32, 16, None, "GPU"], ["BlockRemoved", [1], "GPU"], ["AllBlocksCleared"],
    ]))  # fmt: skip
    assert maps.events == arrays.events
    assert maps.events == (Stored((ONE, TWO), 16, "device", None), Removed((ONE,), "device", None), Cleared())


def test_an_early_release_without_a_tier_or_a_rank_is_read() -> None:
    found = decode(msgspec.msgpack.encode([1.5, [["BlockStored", [1], None, [5] * 16, 16, None]]]))
    assert (found.wall_ns, found.dp_rank, found.events) == (1_500_000_000, None, (Stored((ONE,), 16, "device", None),))


def test_fields_a_later_release_adds_are_stepped_over() -> None:
    event = stored(1, group_idx=3, ownership="x", invented={"deep": [1, {"a": b"b"}]})
    assert decode(batch([event])).events == (Stored((ONE,), 16, "device", 3),)
    assert decode(msgspec.msgpack.encode([1.0, [CLEARED], 0, "more"])).events == (Cleared(),)


def test_kinds_a_later_release_adds_are_counted() -> None:
    found = decode(batch([{"type": "BlockTouched", "x": 1}, stored(1), ["BlockTouched", 1], {"type": "Other"}]))
    assert (len(found.events), found.unknown) == (1, Counter(BlockTouched=2, Other=1))


def test_a_whole_digest_is_known_by_its_last_eight_bytes() -> None:
    digest = bytes(range(32))
    end = int.from_bytes(digest[-8:], "big")
    assert decode(batch([stored(digest)])).events == decode(batch([stored(end)])).events


@pytest.mark.parametrize(("medium", "tier"), [("GPU", "device"), ("CPU_PINNED", "cpu"), ("STORAGE", "disk"),
                                              ("EXTERNAL", "external"), (None, "device")])  # fmt: skip
def test_a_medium_is_a_tier(medium: str | None, tier: str) -> None:
    (event,) = decode(batch([removed(1, medium=medium)])).events
    assert isinstance(event, Removed) and event.tier == tier


def test_a_size_of_zero_is_not_known() -> None:
    (event,) = decode(batch([stored(1, size=0, medium="CPU")])).events
    assert isinstance(event, Stored) and event.tokens is None


WHOLE = batch([stored(1, 2), removed(1)])


@pytest.mark.parametrize("payload", [
    b"", WHOLE[:-1], WHOLE[:40], b"\x93" + WHOLE[5:], b"{}", msgspec.msgpack.encode([float("nan"), [], 0]),
    msgspec.msgpack.encode([-1.0, [], 0]), batch([{"type": "BlockRemoved"}]), batch([{"block_hashes": [1]}]),
    batch([{"type": "BlockRemoved", "block_hashes": ["x"]}]), batch([["BlockStored"]]), batch([7]),
    b"\x93\xcb" + bytes(8) + b"\x91" * 100_000,
])  # fmt: skip
def test_what_is_no_batch_is_unreadable(payload: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(payload)


def test_a_sequence_number_has_eight_bytes() -> None:
    assert sequence((258).to_bytes(8, "big")) == 258
    with pytest.raises(Unreadable):
        sequence(b"\x01\x02")


def test_what_a_user_typed_is_never_decoded() -> None:
    event = stored(1, session_id="ada@example.org", lora_name="of-ada", extra_keys=[["salt-of-ada"]])
    found = repr(decode(batch([event])))
    assert not any(word in found for word in ("ada", "salt", "70000"))


def test_the_messages_of_a_real_engine_decode() -> None:
    found = list(messages())
    whole = [decode(m[2]) for m in found[:-1]]
    assert [sequence(m[1]) for m in found] == list(range(len(found)))
    assert sum(len(e.hashes) for b in whole for e in b.events if isinstance(e, Stored)) > 10_000
    assert all(not b.unknown and b.dp_rank == 0 for b in whole)
    with pytest.raises(Unreadable):
        decode(found[-1][2])


def test_the_event_another_project_tests_with_decodes() -> None:
    event = json.loads(shared_data("kv_events/kv_event_base.json").read_text())
    (found,) = decode(batch([{"type": event.pop("event_type"), **event}])).events
    assert isinstance(found, Stored)
    assert (len(found.hashes), found.tokens, found.tier) == (25, 16, "device")
