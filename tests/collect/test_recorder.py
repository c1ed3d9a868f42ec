"""The recorder against a toy engine's own books: shares, phases, terms, losses, late attachment."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pellucid_probe import records
from pellucid_probe.ring import SEGMENT_BYTES, RingWriter

from pellucid.collect.gpu.nvml import Gpus
from pellucid.collect.loop import Recorder, record
from pellucid.core.errors import Failed
from pellucid.store.read import RunReader, open_run
from pellucid.store.write import Limits, RunWriter
from tests.collect.toy_engine import ToyEngine

pytestmark = pytest.mark.slow

NO_GPU = "no device in this test"


class Bench:
    """A probe folder with one ring, a run folder, and a recorder whose clock is the toy engine's."""

    def __init__(self, root: Path, seed: int, segments: int = 64) -> None:
        self.rings, self.folder = root / "rings", root / "run"
        self.rings.mkdir(exist_ok=True)
        self.engine = ToyEngine(RingWriter(str(self.rings / "engine_core-7.ring"), segments * SEGMENT_BYTES),
                                random.Random(seed))  # fmt: skip
        self.recorder = self.new_recorder(self.folder)

    def new_recorder(self, folder: Path) -> Recorder:
        clock = lambda: self.engine.now  # noqa: E731
        return Recorder(self.rings, RunWriter(folder, Limits(flush_s=0.001), clock), clock, Gpus(NO_GPU))

    def run(self, steps: int, every: int = 1) -> None:
        pick = self.engine.pick
        for i in range(steps):
            if pick.random() < 0.3:
                self.engine.arrive()
            self.engine.run_step()
            self.engine.now += pick.choice([0, 0, 0, 2_000_000_000])
            if i % every == 0:
                self.recorder.cycle()

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return self.open().rows(sql)

    def open(self) -> RunReader:
        return open_run(self.folder)


@pytest.fixture
def shm() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 60))
def test_rows_agree_with_the_engines_own_books(seed: int, steps: int, every: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        bench = Bench(Path(root), seed)
        bench.run(steps, every)
        bench.recorder.end()
        books = bench.engine.books
        shares = bench.rows("SELECT step, request, tokens, phase, output_tokens FROM step_requests ORDER BY ALL")
        assert [tuple(s.values()) for s in shares] == sorted(books.shares)
        total = bench.rows("""
            SELECT coalesce(sum(recomputed_tokens), 0) AS recomputed, coalesce(sum(discarded_tokens), 0) AS discarded,
                   count(*) FILTER (scheduled_tokens != prefill_tokens + decode_tokens + recomputed_tokens
                                    + draft_tokens + discarded_tokens) AS unbalanced
            FROM steps""")[0]
        assert total == {"recomputed": books.recomputed, "discarded": books.discarded, "unbalanced": 0}
        assert bench.rows("""SELECT step FROM step_shares GROUP BY process, step
                             HAVING abs(sum(share_ratio) - 1) > 1e-9""") == []
        requests = bench.rows("SELECT * FROM requests WHERE scheduled_tokens > 0")
        assert {r["request"]: r["scheduled_tokens"] for r in requests} == books.scheduled
        assert {r["request"]: r["output_tokens"] for r in requests if r["output_tokens"]} == {
            k: v for k, v in books.outputs.items() if v
        }
        assert {r["request"]: r["finish_reason"] for r in requests if r["finish_ns"]} == {
            k: v for k, v in books.finished.items() if k in books.scheduled
        }
        assert bench.rows("""SELECT request_id FROM requests WHERE finish_reason = 'length'
            AND scheduled_tokens != computed_tokens - cached_tokens + recomputed_tokens""") == []


def test_records_lost_to_a_slow_reader_are_counted_and_the_rest_is_right_again(shm: Path) -> None:
    bench = Bench(shm, seed=3, segments=4)
    bench.run(50)
    for _ in range(40_000):
        bench.engine.arrive() if bench.engine.pick.random() < 0.05 else bench.engine.run_step()
    bench.recorder.cycle()
    first_after = bench.engine.step
    bench.run(1500)
    bench.recorder.end()
    assert bench.rows("SELECT max(lost_count) AS n FROM sources")[0]["n"] > 0
    known = bench.rows(f"""SELECT count(*) AS n, count(prefill_tokens) AS split FROM steps
                           WHERE step > {first_after} + {records.FULL_EVERY}""")[0]
    assert known["n"] > 500
    assert known["split"] / known["n"] > 0.9
    assert bench.rows("SELECT count(*) AS n FROM steps WHERE scheduled_tokens != prefill_tokens + decode_tokens "
                      "+ recomputed_tokens + draft_tokens + discarded_tokens")[0]["n"] == 0  # fmt: skip


def test_a_second_recorder_that_attaches_late_records_from_there_on(shm: Path) -> None:
    bench = Bench(shm, seed=5)
    bench.run(100)
    del bench.recorder                       # as if killed: nothing is closed
    bench.folder = shm / "second"
    bench.recorder = bench.new_recorder(bench.folder)
    bench.run(600)
    bench.recorder.end()
    assert bench.rows("SELECT max(step) AS n FROM steps")[0]["n"] == bench.engine.step


def test_rows_survive_a_recorder_that_is_never_closed(shm: Path) -> None:
    bench = Bench(shm, seed=6)
    bench.run(300)
    bench.engine.now += 10_000_000_000
    bench.recorder.cycle()
    bench.recorder.writer.flush()
    assert bench.rows("SELECT max(step) AS n FROM steps")[0]["n"] == bench.engine.step


def test_two_recorders_on_one_folder_are_refused(shm: Path, tmp_path: Path) -> None:
    bench = Bench(shm, seed=1)
    with pytest.raises(Failed, match="another recorder"):
        RunWriter(bench.folder, Limits(), lambda: 0)
    seen: list[str] = []

    def stop() -> bool:
        if not seen:
            try:
                record(bench.rings, tmp_path / "other", lambda: True)
            except Failed as error:
                seen.append(str(error))
        return True

    record(bench.rings, tmp_path / "one", stop)
    assert "another recorder" in seen[0]


def test_a_record_of_an_unknown_kind_or_form_does_not_stop_the_rest(shm: Path) -> None:
    bench = Bench(shm, seed=2)
    for kind, payload in ((99, b"?"), (records.ADD, b"not json"), (records.STEP, b"short"), (records.ADMIT, b"")):
        bench.engine.ring.write(kind, payload)
    bench.run(50)
    bench.recorder.end()
    assert bench.rows("SELECT count(*) AS n FROM steps")[0]["n"] == bench.engine.step
    assert bench.recorder.bad_records_count == 4


def test_a_probe_that_stays_off_is_a_blind_fact_with_its_reason(shm: Path) -> None:
    bench = Bench(shm, seed=2)
    (bench.rings / "worker-9.json").write_text('{"role": "worker", "state": "off", "reason": "no room", "pid": 9}')
    bench.recorder.cycle()
    bench.recorder.end()
    facts = bench.rows("SELECT fact, state, reason FROM facts WHERE process = 'worker-9'")
    assert facts == [{"fact": "probe", "state": "blind", "reason": "no room"}]


def test_a_missing_device_is_blind_not_zero(shm: Path) -> None:
    bench = Bench(shm, seed=2)
    bench.recorder.cycle()
    bench.recorder.end()
    assert bench.rows("SELECT state, reason FROM facts WHERE fact = 'device.nvml'") == [
        {"state": "blind", "reason": NO_GPU}
    ]
    assert bench.rows("SELECT count(*) AS n FROM gpu") == [{"n": 0}]


def test_duplicate_external_ids_stay_two_requests(shm: Path) -> None:
    bench = Bench(shm, seed=8)
    ring = RingWriter(str(bench.rings / "frontend-3.ring"), 4 * SEGMENT_BYTES)
    for internal in ("r-1", "r-2"):
        ring.write(records.ARRIVE, records.pack_json({
            "i": internal, "e": "same", "t": 5, "s": 6, "p": "/v1/completions", "g": None, "k": None, "h": "batch",
            "f": "text", "n": 3, "y": 2,
        }))  # fmt: skip
    bench.run(200)
    bench.recorder.end()
    rows = bench.rows("""SELECT internal_id, task, task_source, sent_ns FROM requests WHERE request_id = 'same'
                         ORDER BY 1""")
    assert [r["internal_id"] for r in rows] == ["r-1", "r-2"]
    assert {(r["task"], r["task_source"], r["sent_ns"]) for r in rows} == {("batch", "header", 2)}


def test_ten_thousand_requests_in_flight_fit_one_record(shm: Path) -> None:
    bench = Bench(shm, seed=9)
    bench.engine.budget, bench.engine.cap = 20_000, 20_000
    for _ in range(10_000):
        bench.engine.arrive(prompt=1)
    bench.engine.run_step()
    bench.recorder.end()
    assert bench.engine.ring.dropped_count == 0
    assert bench.rows("SELECT decode_requests_count + prefill_requests_count AS n FROM steps") == [{"n": 10_000}]


def test_a_frontends_word_on_a_step_that_comes_first_is_kept_for_it(shm: Path) -> None:
    bench = Bench(shm, seed=12)
    bench.recorder.cycle()
    front = RingWriter(str(bench.rings / "frontend-3.ring"), 4 * SEGMENT_BYTES)
    stamp_ns = bench.engine.now + 5_000_000 - 5       # inside the update of the step to come
    for engine_ns in (stamp_ns, stamp_ns - 60_000_000_000):     # the other step never comes
        deliver = (stamp_ns + 50, stamp_ns + 90, engine_ns / 1e9, 1)
        front.write(records.DELIVER, records.pack_deliver(*deliver))
    bench.recorder._described_ns = -2_000_000_000_000  # look for new rings now
    bench.recorder.cycle()
    bench.engine.arrive(prompt=5)
    bench.engine.run_step()
    bench.recorder.cycle()
    bench.engine.now += 3_000_000_000
    bench.recorder.cycle()
    assert len(bench.recorder._early) == 0
    bench.recorder.end()
    assert bench.rows("SELECT delivered_ns FROM steps") == [{"delivered_ns": stamp_ns + 90}]
    assert bench.rows("SELECT first_delivered_ns FROM requests") == [{"first_delivered_ns": stamp_ns + 90}]


def test_a_ring_found_half_made_is_read_once_it_is_whole(shm: Path) -> None:
    bench = Bench(shm, seed=2)
    made = bench.rings / "engine_core-7.ring"
    away = bench.rings / "away"
    made.rename(away)
    made.write_bytes(b"")                      # as a probe of another version might leave it for a moment
    bench.run(5)
    assert "too small" in bench.recorder.sources["engine_core-7"].fault
    away.rename(made)
    bench.run(50)
    bench.recorder.end()
    assert bench.rows("SELECT count(*) AS n FROM steps")[0]["n"] == bench.engine.step


def test_a_workers_word_on_the_first_step_that_comes_before_its_engine_core_is_kept(shm: Path) -> None:
    bench = Bench(shm, seed=3)
    worker = RingWriter(str(bench.rings / "worker-8.ring"), 4 * SEGMENT_BYTES)
    worker.write(records.WORK, records.pack_work(1, 10, 20, 0, 0, *[records.UNSEEN_NS] * 3, 0, 0, 0))
    bench.recorder.cycle()
    bench.engine.arrive(5)
    bench.run(3)
    bench.recorder.end()
    assert [r["worker_ns"] for r in bench.rows("SELECT worker_ns FROM steps ORDER BY step LIMIT 2")] == [10, None]
