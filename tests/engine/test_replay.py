"""A recorded run replayed on a real engine: its recording is the same workload again. A killed engine is said."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from pellucid.core.units import S_NS
from pellucid.testing.engine import members
from pellucid.testing.traffic import Ask, send
from pellucid.verbs.loop.replay import Pace, Replayed, Server, Wish, replay
from pellucid.verbs.loop.workload import Out, record_run
from pellucid.workload.file import Workload, read, write
from pellucid.workload.statistics import Statistics, statistics
from tools.real_engine import MODELS
from tools.recording import Served, serve
from tools.traffic.prompts import tokens

MODEL = "tiny-dense"
BLOCK = 32
FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "16", "--load-format", "dummy", "--block-size", str(BLOCK))
COUNT = 40
PACE = Pace(60.0, "again")


def traffic() -> list[Ask]:
    """Three documents with questions behind them, in bursts; two tasks."""
    pick = random.Random(5)
    documents = [tokens(pick, 5 * BLOCK) for _ in range(3)]
    out, at_s = [], 0.0
    for n in range(COUNT):
        at_s += pick.expovariate(8 if n % 10 else 1)
        prompt = f"{pick.choice(documents)} {tokens(pick, pick.randrange(10, 90))}"
        out.append(Ask(at_s, prompt, pick.randrange(2, 24), pick.choice(("chat", "summary"))))
    return out


def first(served: Served) -> None:
    """What the engine sets up late is set up; of another length than all others, so that it is known again."""
    assert all(r.ok for r in send(served.url, MODEL, [Ask(0, [5] * 7, 3)]))


def workload_of(served: Served, out: Path) -> Workload:
    record_run(served.folder(), Out(out))
    whole = read(out)
    kept = whole.requests.filter([p != 7 for p in whole.requests.column("prompt_tokens").to_pylist()])
    return Workload(whole.about, kept)


@dataclass(slots=True)
class Twice:
    source: Workload
    again: Workload
    replayed: Replayed
    seen: tuple[Statistics, Statistics]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twice]:
    tmp = tmp_path_factory.mktemp("replay")
    served = serve(MODEL, FLAGS, tmp / "home", tmp / "one.log")
    try:
        first(served)
        assert all(r.ok for r in send(served.url, MODEL, traffic()))
    finally:
        served.end()
    source = workload_of(served, tmp / "one.parquet")
    write_to(source, tmp / "w.parquet")
    served = serve(MODEL, FLAGS, tmp / "home", tmp / "two.log")
    try:
        first(served)
        replayed = replay(tmp / "w.parquet", Server(served.url, model_config=MODELS / MODEL), Wish(seed=3), PACE)
    finally:
        served.end()
    again = workload_of(served, tmp / "two.parquet")
    yield Twice(source, again, replayed, (statistics(source), statistics(again)))


def write_to(workload: Workload, path: Path) -> None:
    write(Workload(msgspec.structs.replace(workload.about, requests_count=len(workload)), workload.requests), path)


def kill(served: Served) -> None:
    for member in members(served.engine):
        os.kill(member.pid, signal.SIGKILL)


def gaps_ns(workload: Workload) -> list[int]:
    times = workload.requests.column("arrival_ns").to_pylist()
    return [t - times[0] for t in times]


def test_every_request_is_answered_and_the_engine_is_known(twice: Twice) -> None:
    assert (twice.replayed.ok_count, twice.replayed.off_count) == (COUNT, 0)
    assert twice.replayed.conditions["engine"] == "vllm"
    assert twice.replayed.conditions["context_tokens"] == 2048
    assert twice.replayed.plan.notes == ()


def test_the_engine_saw_the_arrivals_of_the_source(twice: Twice) -> None:
    """Within what the client was late, and what a loaded frontend takes to see a request."""
    late = [b - a for a, b in zip(gaps_ns(twice.source), gaps_ns(twice.again), strict=True)]
    lags = [r.lag_ns for r in twice.replayed.played.replies]
    assert max(map(abs, late)) < max(lags) + S_NS // 10


def test_the_engine_saw_the_lengths_and_tasks_of_the_source(twice: Twice) -> None:
    for column in ("prompt_tokens", "output_tokens", "task"):
        source, again = (sorted(w.requests.column(column).to_pylist()) for w in (twice.source, twice.again))
        assert source == again, column


def test_prompts_share_what_they_shared(twice: Twice) -> None:
    source, again = (s.sharing for s in twice.seen)
    assert source is not None and again is not None
    assert source.repeated_tokens > COUNT * 3 * BLOCK
    assert abs(source.repeated_tokens - again.repeated_tokens) <= COUNT * BLOCK // 10


def test_the_client_measured_what_it_says(twice: Twice) -> None:
    found = twice.replayed.latencies
    assert found.ttft_ns is not None and found.itl_ns is not None and found.e2e_ns is not None
    assert 0 < found.itl_ns[0] < found.ttft_ns[0] < found.e2e_ns[0]
    assert twice.replayed.sent is not None
    assert twice.replayed.sent.output == twice.replayed.source.output


def test_a_killed_engine_is_a_clear_answer(tmp_path: Path, twice: Twice) -> None:
    write_to(twice.source, tmp_path / "w.parquet")
    served = serve(MODEL, FLAGS, tmp_path / "home", tmp_path / "log")
    killed = threading.Timer(2.0, kill, [served])
    try:
        killed.start()
        began = time.monotonic()
        wish = Wish(speed=0.5)
        found = replay(tmp_path / "w.parquet", Server(served.url, model_config=MODELS / MODEL), wish, PACE)
    finally:
        killed.join()
        served.end()
    assert time.monotonic() - began < 60
    assert found.ok_count < COUNT
    assert set(found.faults) <= {"lost", "cut", "refused"}
    assert "refused" in found.faults
    assert found.played.ended_early or len(found.played.replies) == COUNT
