"""An unmodified engine, asked over its metrics page: `pellucid why URL` gives an answer that a user can act on."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pellucid.core.run import run_folders
from pellucid.store.read import RunReader, open_run
from pellucid.testing.engine import Engine, stop
from pellucid.testing.traffic import Ask, send
from tools.recording import launch, pellucid
from tools.traffic.prompts import tokens

CAP, USERS, LOOK_S, LEAD_S = 4, 10, 20, 4.0
MODEL = "tiny-dense"
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", str(CAP))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Without the probe: it is installed beside the engine, and told to stay out."""
    served, _ = launch(MODEL, FLAGS, tmp_path_factory.mktemp("attach") / "engine.log", env={"PELLUCID_OFF": "1"})
    try:
        yield served
    finally:
        assert stop(served, 60) == []


@pytest.fixture(scope="module")
def calm(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], RunReader]:
    """What was said of two users, and what was recorded of them."""
    home = tmp_path_factory.mktemp("calm")
    answer = asked(engine, home, users(2, 32))
    (folder,) = run_folders(home)
    return answer, open_run(folder)


def users(count: int, output_tokens: int) -> list[Ask]:
    """Each waits for its answer before it asks again."""
    pick, asks = random.Random(5), list[Ask]()
    for _ in range(count):
        for turn in range(400):
            asks.append(Ask(0.0, tokens(pick, 16), output_tokens, after=len(asks) - 1 if turn else None))
    return asks


def asked(engine: Engine, home: Path, asks: list[Ask]) -> dict[str, Any]:
    """What `pellucid why URL` says while this traffic runs."""
    traffic = Thread(target=send, args=(engine.url, MODEL, asks, LOOK_S + 2 * LEAD_S))
    traffic.start()
    try:
        done = subprocess.run(
            pellucid("why", engine.url, "--for", f"{LOOK_S}s", "--json"), capture_output=True, text=True, timeout=120,
            env={"PELLUCID_HOME": str(home), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    finally:
        traffic.join()
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_more_users_than_places_are_seen_from_outside(engine: Engine, tmp_path: Path) -> None:
    answer = asked(engine, tmp_path, users(USERS, 600))     # long answers: the engine is busy, not the client
    found = {f["id"]: f for f in answer["findings"]}
    finding = found["queue.waiting_with_kv_free"]
    assert finding["evidence"]["running_max_count"] == CAP
    assert CAP < USERS == finding["evidence"]["running_max_count"] + finding["evidence"]["waiting_p95_count"]
    assert finding["moves"][0]["setting"] == f"--max-num-seqs {USERS}"
    assert f"while {CAP} ran" in answer["verdict"]
    assert answer["load"]["requests_count"] > 0 < answer["load"]["ttft_mean_ns"]
    assert answer["engine"]["name"] == "vllm" and answer["engine"]["version"].startswith("0.")


def test_two_users_of_four_places_are_healthy(calm: tuple[dict[str, Any], RunReader]) -> None:
    answer, _ = calm
    assert (answer["findings"], answer["healthy"]) == ([], True)
    assert {"queue.waiting_with_kv_free", "kv.cache_full"} <= {c["id"] for c in answer["clear"]}


def test_the_tokens_counted_from_outside_are_those_that_were_sent(calm: tuple[dict[str, Any], RunReader]) -> None:
    _, run = calm
    (row,) = run.rows(
        "SELECT sum(value) FILTER (metric = 'finished_count') AS requests_count, "
        "sum(value) FILTER (metric = 'output_tokens') AS output_tokens FROM metrics"
    )
    assert row["requests_count"] > 10
    assert row["output_tokens"] == pytest.approx(32 * row["requests_count"], abs=3 * 32)


def test_every_family_of_this_engine_has_a_place(calm: tuple[dict[str, Any], RunReader]) -> None:
    _, run = calm
    assert run.rows("SELECT DISTINCT name FROM samples WHERE name LIKE 'vllm:%'") == []


def test_what_only_the_probe_sees_is_blind_with_the_way_to_it(calm: tuple[dict[str, Any], RunReader]) -> None:
    answer, _ = calm
    blind = {b["id"]: b for b in answer["blind"]}
    assert {"step.times", "request.identity", "kv.preemption_storm"} <= set(blind)
    assert "pellucid run" in blind["step.times"]["collect"]
