"""Over real sockets, into a real run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.kv_events.follow import Endpoint, Follower
from pellucid.core.clock import anchor_now, monotonic_ns
from pellucid.core.errors import AskedWrongly
from pellucid.store.read import open_run
from pellucid.store.write import Limits, RunWriter
from tests.collect.kv_events.publisher import Publisher, batch, removed, stored

KEY = b"k" * 32


class Following:
    def __init__(self, folder: Path, *publishers: Publisher) -> None:
        self.folder, self.writer = folder, RunWriter(folder, Limits(), monotonic_ns)
        endpoints = [Endpoint(p.events, p.replay) for p in publishers]
        self.follower = Follower(endpoints, KEY, self.writer.append, anchor_now())
        for p in publishers:
            p.wait_for_subscriber()

    def until(self, done: Callable[[], bool], limit_s: float = 10.0) -> None:
        end_s = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < end_s, self.follower.sources[0].stream
            self.follower.cycle(monotonic_ns())
            time.sleep(0.002)

    def batches(self, n: int = 0) -> int:
        return self.follower.sources[n].stream.lives.counts.batches

    def rows(self, sql: str) -> list[dict[str, Any]]:
        self.follower.end()
        self.writer.close()
        return open_run(self.folder).rows(sql)


def states(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["fact"]: row["state"] for row in rows}


def test_messages_the_network_dropped_are_replayed(tmp_path: Path) -> None:
    with Publisher() as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(1, 2, 3)]))
        f.until(lambda: f.batches() == 1)
        p.keep(batch([removed(1)], 1))
        p.keep(batch([stored(4)], 2))
        p.send(batch([removed(2)], 3))
        f.until(lambda: f.batches() == 4)
        assert p.asked == [0]
        rows = f.rows("SELECT removed_reason FROM kv_residency ORDER BY removed_reason")
        assert [r["removed_reason"] for r in rows] == ["evicted", "evicted", None, None]
        facts = open_run(tmp_path).rows("SELECT * FROM facts")
        assert states(facts) == {"kv.events": "visible", "kv.events_whole": "visible"}


def test_a_gap_without_a_replay_socket_is_said(tmp_path: Path) -> None:
    with Publisher(replay=False) as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(1)]))
        p.keep(batch([removed(1)], 1))
        p.send(batch([{"type": "Novelty"}], 2))
        f.until(lambda: f.batches() == 2)
        facts = f.rows("SELECT * FROM facts")
        assert states(facts) == {"kv.events": "visible", "kv.events_whole": "blind"}
        reason = facts[-1]["reason"]
        assert "1 messages were lost in 1 gaps" in reason and "Novelty (1)" in reason
        (source,) = open_run(tmp_path).rows("SELECT process, lost_count, torn_count FROM sources")
        assert source == {"process": "kv_events-0", "lost_count": 1, "torn_count": 0}


def test_a_gap_longer_than_the_publishers_memory_is_lost_up_to_there(tmp_path: Path) -> None:
    with Publisher(buffer=3) as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(1)]))
        f.until(lambda: f.batches() == 1)
        for n in range(1, 6):
            p.keep(batch([stored(n * 10)], n))
        p.send(batch([stored(100)], 6))
        f.until(lambda: f.batches() == 4)
        losses = f.follower.sources[0].stream.losses
        assert (losses.lost, losses.gaps, losses.replayed) == (3, 1, 2)
        rows = f.rows("SELECT removed_reason, count(*) AS n FROM kv_residency GROUP BY 1 ORDER BY 1")
        assert rows == [{"removed_reason": "unknown", "n": 1}, {"removed_reason": None, "n": 3}]


def test_two_ranks_are_two_sources(tmp_path: Path) -> None:
    with Publisher() as a, Publisher() as b:
        f = Following(tmp_path, a, b)
        a.send(batch([stored(1)], rank=0))
        b.send(batch([stored(1)], rank=1))
        f.until(lambda: f.batches(0) == f.batches(1) == 1)
        rows = f.rows("SELECT process, dp_rank FROM kv_residency ORDER BY 1")
        assert rows == [{"process": "kv_events-0", "dp_rank": 0}, {"process": "kv_events-1", "dp_rank": 1}]


@pytest.mark.slow
def test_a_huge_batch_and_a_long_burst_arrive_whole(tmp_path: Path) -> None:
    with Publisher() as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(*range(100_000), size=1)]))
        for n in range(5_000):
            p.send(batch([removed(n)], 1 + n / 1000))
        f.until(lambda: f.batches() == 5_001, limit_s=60)
        rows = f.rows("SELECT count(*) AS n, count(removed_ns) AS removed FROM kv_residency")
        assert rows == [{"n": 100_000, "removed": 5_000}]


def test_damaged_messages_between_good_ones_are_had_again(tmp_path: Path) -> None:
    with Publisher() as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(1)]))
        p.send_raw(b"", p.keep(batch([removed(1)], 1)).to_bytes(8, "big"), b"\xc1 broken")
        p.send_raw(b"a", b"b")
        p.send(batch([], 2))
        f.until(lambda: f.batches() == 3)
        assert f.follower.sources[0].stream.losses.damaged == 2
        assert f.rows("SELECT removed_reason FROM kv_residency") == [{"removed_reason": "evicted"}]


def test_nothing_that_comes_is_blind_with_what_to_do(tmp_path: Path) -> None:
    with Publisher() as p:
        f = Following(tmp_path, p)
        f.follower.cycle(monotonic_ns())
        (fact,) = f.rows("SELECT * FROM facts")
        assert (fact["fact"], fact["state"]) == ("kv.events", "blind")
        assert p.events in fact["reason"] and "--kv-events-config" in fact["collect"]
        assert open_run(tmp_path).rows("SELECT * FROM sources") == []


def test_no_token_id_reaches_the_disk(tmp_path: Path) -> None:
    digest = 0x1234_5678_9ABC_DEF0
    secrets = [b"ada", *(n.to_bytes(8, order) for n in (digest, 70_000) for order in ("big", "little"))]
    with Publisher() as p:
        f = Following(tmp_path, p)
        p.send(batch([stored(digest, session_id="of-ada", lora_name="for-ada")]))
        f.until(lambda: f.batches() == 1)
        f.follower.end()
        f.writer.flush()
        written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"kv_events-0" in written
        assert [s for s in (*secrets, b"123456789abcdef0", b"70000") if s in written] == []
        f.writer.close()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(AskedWrongly, match="tcp://host:5557"):
        Follower([Endpoint("tcp://127.0.0.1:5557"), Endpoint("host:5557")], KEY, lambda *_: None, anchor_now())
