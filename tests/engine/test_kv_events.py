"""An engine publishes its KV events while few blocks force it to evict; beside it, the probe counts cached blocks."""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.engine import free_port
from pellucid.testing.traffic import Ask, send
from pellucid.verbs.intake.kv_events import Followed, endpoints, follow_kv_events
from pellucid.verbs.record import RecordInto, stop_after
from pellucid.verbs.visible.facts import latest_facts
from tools.recording import serve
from tools.traffic.prompts import tokens

BLOCKS, BLOCK_TOKENS, REQUESTS, PROMPT_TOKENS = 48, 32, 24, 200      # a CPU takes blocks of 32 and multiples


@dataclass(frozen=True, slots=True)
class Heard:
    all_along: RunReader           # listened from before the first request
    late: RunReader                # connected when all was over, and had the history replayed
    cleared: RunReader             # the same, after the engine was told to drop its cache
    seen: Followed
    probe: RunReader


def flags(events: int, replay: int) -> tuple[str, ...]:
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{events}",
              "replay_endpoint": f"tcp://*:{replay}"}  # fmt: skip
    return ("--max-model-len", "512", "--max-num-seqs", "2", "--block-size", str(BLOCK_TOKENS),
            "--num-gpu-blocks-override", str(BLOCKS), "--kv-events-config", json.dumps(config))  # fmt: skip


def asks() -> list[Ask]:
    """Distinct prompts that together are several times what fits."""
    pick = random.Random(5)
    return [Ask(n * 0.1, tokens(pick, PROMPT_TOKENS), 20, request_id=f"kv-{n}") for n in range(REQUESTS)]


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    home = tmp_path_factory.mktemp("kv")
    ports = free_port(), free_port()
    where = endpoints([f"tcp://127.0.0.1:{ports[0]}"], [f"tcp://127.0.0.1:{ports[1]}"])
    over, found = threading.Event(), list[Followed]()

    def listen() -> None:
        found.append(follow_kv_events(where, RecordInto(home, home / "all-along"), over.is_set))

    def replayed(name: str) -> RunReader:
        """A publisher replays when something new comes; a short request is new."""
        asked = threading.Timer(1.0, lambda: send(served.url, served.model, [Ask(0, [5, 6, 7, 8] * 8, 4)]))
        asked.start()
        stop = stop_after(10_000_000_000)
        return open_run(follow_kv_events(where, RecordInto(home, home / name), stop).folder)

    listener = threading.Thread(target=listen)
    served = serve("tiny-dense", flags(*ports), home, home / "engine.log", env={"VLLM_SERVER_DEV_MODE": "1"})
    try:
        listener.start()
        assert all(reply.ok for reply in send(served.url, served.model, asks()))
        late = replayed("late")
        over.set()
        listener.join()
        urllib.request.urlopen(urllib.request.Request(f"{served.url}/reset_prefix_cache", method="POST"))
        cleared = replayed("cleared")
    finally:
        over.set()
        served.end()
    yield Heard(open_run(Path(found[0].folder)), late, cleared, found[0], open_run(served.folder()))


def ends(run: RunReader) -> dict[str | None, int]:
    rows = run.rows("SELECT removed_reason AS reason, count(*) AS n FROM kv_residency GROUP BY 1")
    return {row["reason"]: row["n"] for row in rows}


def test_events_arrive_without_a_gap(heard: Heard) -> None:
    facts = latest_facts(heard.all_along)
    assert {f["fact"]: f["state"] for f in facts} == {"kv.events": "visible", "kv.events_whole": "visible"}
    assert heard.seen.lost_count == 0 and heard.seen.messages_count > REQUESTS


def test_lives_open_and_close_under_eviction(heard: Heard) -> None:
    found = ends(heard.all_along)
    assert found.keys() == {"evicted", None}
    assert 0 < found[None] < BLOCKS
    assert found["evicted"] + found[None] == heard.seen.stored_count >= REQUESTS * (PROMPT_TOKENS // BLOCK_TOKENS)
    assert found["evicted"] == heard.seen.removed_count
    odd = heard.all_along.rows("""SELECT * FROM kv_residency WHERE cached_ns IS NULL OR removed_ns < cached_ns
                                  OR tier <> 'device' OR tokens <> $size""", {"size": BLOCK_TOKENS})
    assert odd == []


def there(run: RunReader) -> list[tuple[int, int]]:
    """How many blocks were cached, from one moment to the next."""
    changes = [(life["cached_ns"], 1) for life in run.rows("SELECT cached_ns FROM kv_residency")]
    removals = run.rows("SELECT removed_ns FROM kv_residency WHERE removed_ns IS NOT NULL")
    changes += [(life["removed_ns"], -1) for life in removals]
    return list(accumulate(sorted(changes), lambda so_far, change: (change[0], so_far[1] + change[1]), initial=(0, 0)))


def test_at_no_time_are_more_blocks_cached_than_there_are(heard: Heard) -> None:
    assert BLOCKS * 3 // 4 < max(count for _, count in there(heard.all_along)) < BLOCKS


def test_the_engine_counts_as_many_cached_blocks_at_the_same_time(heard: Heard) -> None:
    """Its own map of them, which the probe reads in every eighth step; events are stamped when a step has ended."""
    counts, steps = there(heard.cleared), heard.probe.rows("SELECT * FROM steps ORDER BY step")
    read = [(a, b) for a, b in pairwise(steps) if a["kv_cached_blocks_count"] != b["kv_cached_blocks_count"]]
    assert len(read) > 5
    for before, step in read:
        at_start = [count for at, count in counts if at <= before["start_ns"]][-1]
        during = {count for at, count in counts if before["start_ns"] < at <= step["end_ns"]}
        assert step["kv_cached_blocks_count"] in {at_start, *during}, step["step"]


def test_the_probe_saw_the_same_lives_in_the_block_pool(heard: Heard) -> None:
    assert ends(heard.cleared) == ends(heard.probe)


def test_a_late_listener_has_the_history_replayed(heard: Heard) -> None:
    assert ends(heard.late) == ends(heard.all_along)


def test_a_cleared_cache_ends_all_lives(heard: Heard) -> None:
    found = ends(heard.cleared)
    assert found["cleared"] == ends(heard.all_along)[None]


def test_event_times_are_those_of_the_steps(heard: Heard) -> None:
    """Events are stamped at the end of the step that cached the blocks."""
    events = heard.all_along.one("SELECT min(cached_ns) AS first, max(cached_ns) AS last FROM kv_residency")
    steps = heard.probe.one("SELECT min(start_ns) AS first, max(end_ns) AS last FROM steps")
    assert steps["first"] < events["first"] < events["last"] < steps["last"]
