"""Sampling and turns of conversations on real engines: what was asked for is recorded, and is in the workload."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.workload.recorded import recorded
from tools.real_engine import OLDER, PYTHON
from tools.recording import Served, serve

BLOCK, THINKS_S = 32, 0.5
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "4", "--block-size", str(BLOCK))
SAMPLED = {"temperature": 0.7, "top_p": 0.875, "top_k": 20, "seed": 3}


def said(served: Served, name: str, ids: list[int], **more: Any) -> list[int]:
    """The prompt with its answer, both as token ids."""
    body = {"model": served.model, "prompt": ids, "max_tokens": 2 * BLOCK, "ignore_eos": True, "return_token_ids": True}
    headers = {"X-Request-Id": name}
    reply = httpx.post(f"{served.url}/v1/completions", json={**body, **more}, headers=headers, timeout=60)
    found: list[int] = reply.raise_for_status().json()["choices"][0]["token_ids"]
    return [*ids, *found]


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunReader]:
    home: Path = tmp_path_factory.mktemp("sampling")
    served = serve("tiny-dense", FLAGS, home, home / "engine.log", python=request.param)
    question, later = list(range(100, 150)), list(range(300, 320))
    try:
        first = said(served, "first", question, **SAMPLED)
        said(served, "alone", list(range(500, 560)), temperature=0.0)
        time.sleep(THINKS_S)
        second = said(served, "second", [*first, *later])
        said(served, "third", [*second, *later], temperature=1.5)
        said(served, "another", [*question, *later])
    finally:
        served.end()
    yield open_run(served.folder())


def row(run: RunReader, name: str) -> dict[str, Any]:
    return run.one("SELECT r.*, l.follows FROM requests r JOIN prefix_lookups l USING (process, request) "
                   "WHERE r.request_id = $id", {"id": f"cmpl-{name}-0"})  # fmt: skip


def test_sampling_is_what_was_asked_for(run: RunReader) -> None:
    names = ("temperature", "top_p", "top_k", "seeded", "max_tokens", "response_format")
    assert [row(run, "first")[n] for n in names] == [0.7, 0.875, 20, "yes", 2 * BLOCK, "text"]
    assert [row(run, "alone")[n] for n in names] == [0.0, 1.0, 0, "no", 2 * BLOCK, "text"]
    assert [row(run, "second")[n] for n in names[:4]] == [1.0, 1.0, 0, "no"]      # the engine's own


def test_a_next_turn_follows_the_answer_it_goes_on_from(run: RunReader) -> None:
    follows = {name: row(run, name)["follows"] for name in ("first", "alone", "second", "third", "another")}
    numbers = {name: row(run, name)["request"] for name in follows}
    assert follows == {"first": None, "alone": None, "second": numbers["first"], "third": numbers["second"],
                       "another": None}  # fmt: skip


def test_the_workload_has_the_conversation_and_the_time_its_user_took(run: RunReader) -> None:
    found = recorded(run, "r").requests
    first, alone, second, third, another = found.to_pylist()
    assert [r["session"] for r in (first, alone, second, third, another)] == ["1", None, "1", "1", None]
    assert (first["temperature"], first["top_k"], first["seeded"], third["temperature"]) == (0.7, 20, "yes", 1.5)
    assert (first["think_ns"], alone["think_ns"]) == (None, None)
    assert second["think_ns"] >= THINKS_S * 1e9 > third["think_ns"] >= 0


def test_the_facts_are_visible(run: RunReader) -> None:
    seen = {r["fact"]: r["state"] for r in run.rows("SELECT fact, state FROM facts WHERE role = 'engine_core'")}
    assert (seen["request.sampling"], seen["kv.lives"]) == ("visible", "visible")
