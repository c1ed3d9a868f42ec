"""Blocks of an outer tier, from what the probe leaves: written, brought back, thrown out."""

from __future__ import annotations

from typing import Any

import pytest
from pellucid_probe import kv_records as kv

from pellucid.collect.kv.lives import KvLives
from pellucid.collect.kv.pace import ROWS_A_MINUTE
from pellucid.store.schema import TABLES

KEY = b"k" * 32


class Bench:
    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {"kv_residency": [], "kv_onboards": []}
        self.lives = KvLives(lambda: {"process": "core-1"}, self._row, KEY)

    def _row(self, table: str, row: tuple[Any, ...]) -> None:
        self.rows[table].append(dict(zip(TABLES[table].names(), row, strict=True)))

    def tell(self, what: int, time_ns: int, request: int, *names: str) -> None:
        blocks = [(0, name.encode().ljust(8, b"\0")) for name in names]
        self.lives.take(kv.KV_TIER, kv.pack_tier(what, time_ns, request, blocks))

    def stored(self, time_ns: int, request: int, *names: str) -> None:
        self.tell(kv.TIER_STORING, time_ns - 1, request, *names)
        self.tell(kv.TIER_STORED, time_ns, 0, *names)

    def shown(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in self.rows[table]]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_told_is_read_back() -> None:
    told = kv.TierBlocks(kv.TIER_LOADED, 2**40, 7, [(0, b"a" * 8), (3, b"b" * 8)])
    assert kv.unpack_tier(kv.pack_tier(*told)) == told
    assert kv.unpack_tier(kv.pack_tier(kv.TIER_CLEARED, 5, 0, ())) == (kv.TIER_CLEARED, 5, 0, [])


def test_an_onboard_has_its_request_age_and_idle_time(bench: Bench) -> None:
    bench.stored(100, 1, "a", "b")
    bench.tell(kv.TIER_LOADED, 300, 2, "a")
    bench.tell(kv.TIER_LOADED, 350, 3, "a", "b")
    assert bench.shown("kv_onboards", "time_ns", "request", "age_ns", "idle_ns", "tier") == [
        (300, 2, 200, 200, "cpu"), (350, 3, 250, 50, "cpu"), (350, 3, 250, 250, "cpu")]  # fmt: skip
    (first, again, other) = bench.shown("kv_onboards", "block_hash")
    assert first == again != other


def test_a_life_ends_when_room_is_made_for_another_request(bench: Bench) -> None:
    bench.stored(100, 1, "a")
    bench.tell(kv.TIER_LOADED, 300, 2, "a")
    bench.tell(kv.TIER_EVICTED, 400, 5, "a")
    bench.stored(401, 5, "b")
    bench.lives.end()
    columns = ("tier", "request", "cached_ns", "last_used_ns", "removed_ns", "removed_reason", "removed_by",
               "hits_count")  # fmt: skip
    assert bench.shown("kv_residency", *columns) == [
        ("cpu", 1, 100, 300, 400, "evicted", 5, 1), ("cpu", 5, 401, 401, None, None, None, 0)]  # fmt: skip


def test_what_could_not_be_written_has_no_life(bench: Bench) -> None:
    bench.tell(kv.TIER_STORING, 99, 1, "a")
    bench.tell(kv.TIER_FAILED, 100, 0, "a")
    bench.lives.end()
    assert bench.rows["kv_residency"] == []


def test_what_was_there_before_has_no_beginning(bench: Bench) -> None:
    bench.tell(kv.TIER_LOADED, 300, 2, "a")
    bench.tell(kv.TIER_EVICTED, 400, 3, "z")
    bench.lives.end()
    assert bench.shown("kv_onboards", "age_ns", "idle_ns") == [(None, None)]
    assert bench.shown("kv_residency", "cached_ns", "last_used_ns", "removed_ns", "hits_count") == [
        (None, None, 400, 0), (None, 300, None, 1)]  # fmt: skip


@pytest.mark.parametrize(("end", "reason", "removed_ns"), [("clear", "cleared", 500), ("lose", "unknown", None)])
def test_all_lives_end_at_once(bench: Bench, end: str, reason: str, removed_ns: int | None) -> None:
    bench.stored(100, 1, "a", "b")
    if end == "clear":
        bench.tell(kv.TIER_CLEARED, 500, 0)
    else:
        bench.lives.take(kv.KV_LOST, kv.pack_blocks(500, ()))
    assert bench.shown("kv_residency", "removed_reason", "removed_ns") == [(reason, removed_ns)] * 2
    bench.lives.end()
    assert len(bench.rows["kv_residency"]) == 2


def test_clearing_the_device_leaves_the_tier(bench: Bench) -> None:
    bench.stored(100, 1, "a")
    bench.lives.take(kv.KV_CLEARED, kv.pack_blocks(200, ()))
    assert bench.rows["kv_residency"] == []


def test_a_store_of_what_is_there_keeps_its_life(bench: Bench) -> None:
    bench.stored(100, 1, "a")
    bench.tell(kv.TIER_STORED, 200, 0, "a")
    bench.lives.end()
    assert bench.shown("kv_residency", "request", "cached_ns") == [(1, 100)]


def test_of_very_many_some_stand_for_all(bench: Bench) -> None:
    count = 3 * ROWS_A_MINUTE
    names = [f"{n:08d}"[::-1] for n in range(count)]
    bench.stored(100, 1, *names)
    bench.tell(kv.TIER_LOADED, 200, 2, *names)
    bench.lives.end()
    onboards, lives = bench.rows["kv_onboards"], bench.rows["kv_residency"]
    assert len(onboards) < count and sum(row["stands_for_count"] for row in onboards) == pytest.approx(count, rel=0.1)
    assert {row["block_hash"] for row in lives} <= {row["block_hash"] for row in onboards}
