"""Real engines with a model that drafts: what it holds is what its files say.

Both are tiny and random, so they seldom agree; a request that may say one token only has its drafts kept.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, send
from tests.engine.fact_table import committed_facts
from tools import real_engine
from tools.recording import serve
from tools.traffic.prompts import tokens

TARGET, DRAFTER, DEPTH = "tiny-moe", "tiny-dense", 3
SPECULATION = {"method": "draft_model", "model": f".models/{DRAFTER}", "num_speculative_tokens": DEPTH}
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "4", "--speculative-config", json.dumps(SPECULATION))
ITEM_BYTES = {"bfloat16": 2, "float32": 4}[real_engine.dtype()]
SCALES_BYTES = 64       # each layer of attention has a few numbers that are in no file


@pytest.fixture(scope="module", params=[real_engine.PYTHON, real_engine.OLDER], ids=["newest", "oldest"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunReader]:
    home = tmp_path_factory.mktemp("drafter")
    served = serve(TARGET, FLAGS, home, home / "engine.log", python=request.param)
    try:
        replies = send(served.url, TARGET, traffic())
    finally:
        served.end()
    assert all(reply.ok for reply in replies)
    yield open_run(served.folder())


def traffic() -> list[Ask]:
    pick = random.Random(3)
    copies = [Ask(n / 10, tokens(pick, 20), 60, task="copy", extra={"temperature": 0, "allowed_token_ids": [99]})
              for n in range(3)]  # fmt: skip
    return copies + [Ask(n / 10, tokens(pick, 20), 60, task="free") for n in range(3)]


def elements(model: str) -> int:
    """Of all tensors in a model's file."""
    with (real_engine.MODELS / model / "model.safetensors").open("rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(size))
    return sum(math.prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__")


def config(model: str) -> Any:
    return json.loads(Path(real_engine.MODELS / model / "config.json").read_text())


def slot_bytes(model: str) -> int:
    """Keys and values of one position, in all layers."""
    c = config(model)
    heads: int = c["num_hidden_layers"] * c["num_key_value_heads"] * c["head_dim"]
    return 2 * heads * ITEM_BYTES


def held(run: RunReader) -> dict[str, Any]:
    return run.one("SELECT * FROM drafter_memory")


def test_the_drafters_weights_are_those_of_its_file(run: RunReader) -> None:
    more_bytes = held(run)["draft_weight_bytes"] - elements(DRAFTER) * ITEM_BYTES
    assert 0 <= more_bytes <= SCALES_BYTES * config(DRAFTER)["num_hidden_layers"]


def test_the_drafters_cache_is_that_of_its_layers(run: RunReader) -> None:
    core = run.one("SELECT config_json FROM processes WHERE role LIKE '%engine_core%'")
    known = json.loads(core["config_json"])
    slots = known["num_gpu_blocks"] * known["block_size"]
    found = held(run)
    assert found["draft_kv_bytes"] == slots * slot_bytes(DRAFTER)
    assert found["kv_bytes"] == slots * (slot_bytes(DRAFTER) + slot_bytes(TARGET)) == known["kv_cache_bytes"]


def test_its_share_is_both_over_what_both_models_hold(run: RunReader) -> None:
    found = held(run)
    assert found["memory_note"] is None
    assert found["weight_bytes"] > (elements(DRAFTER) + elements(TARGET)) * ITEM_BYTES * 0.99
    held_bytes = found["weight_bytes"] + found["kv_bytes"]
    assert found["memory_ratio"] == (found["draft_weight_bytes"] + found["draft_kv_bytes"]) / held_bytes
    tasks = run.rows("SELECT task, draft_memory_ratio FROM speculation_tasks")
    assert {t["task"] for t in tasks} == {"copy", "free"}
    assert {t["draft_memory_ratio"] for t in tasks} == {found["memory_ratio"]}


def test_the_share_of_time_is_one_or_says_why_not(run: RunReader) -> None:
    """One step whose worker was not heard takes its window with it: on a crowded machine, where the probe samples."""
    for task in run.rows("SELECT draft_time_ratio AS share, time_note FROM speculation_tasks"):
        assert task["time_note"] if task["share"] is None else 0 < task["share"] < 1


def test_positions_of_requests_add_up(run: RunReader) -> None:
    sums = run.rows("""
        SELECT request_id, drafted_tokens, accepted_tokens,
               sum(drafted_count)::BIGINT AS d, sum(accepted_count)::BIGINT AS a
        FROM speculation_requests GROUP BY ALL""")
    assert len(sums) == len(traffic())
    assert all((s["d"], s["a"]) == (s["drafted_tokens"], s["accepted_tokens"]) for s in sums)
    columns = "task, position, sum(drafted_count)::BIGINT AS d, sum(accepted_count)::BIGINT AS a"
    by_request, by_task = (run.rows(f"SELECT {columns} FROM {name} GROUP BY task, position ORDER BY ALL")
                           for name in ("speculation_requests", "speculation"))  # fmt: skip
    assert by_request == by_task
    assert {row["position"] for row in by_task} == set(range(1, DEPTH + 1))


def test_the_facts_are_those_of_the_committed_table(run: RunReader) -> None:
    seen = run.rows("SELECT DISTINCT fact, role, state, engine_version FROM facts WHERE fact LIKE 'worker.draft%'")
    (version,) = {r["engine_version"] for r in seen}
    known = committed_facts(version, "cpu", "speculation") - committed_facts(version, "cpu")
    assert {(r["fact"], r["role"], r["state"]) for r in seen} == known


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(run: RunReader, law: str) -> None:
    assert broken(run, {law: LAWS[law]}) == {}
