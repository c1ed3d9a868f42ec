"""Real engines with two LoRA adapters of random weights, made here, and one slot for them; and prompts without any."""

from __future__ import annotations

import json
import random
import struct
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tests.engine.fact_table import committed_facts
from tools.real_engine import MODELS, OLDER, PYTHON
from tools.recording import serve
from tools.traffic.prompts import tokens

TOLD_S = 3.0      # the worker is killed at the end; what it said of itself and its last steps is read before
MODEL, BLOCK, OUTPUT, RANK = "tiny-dense", 32, 12, 8
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "8", "--block-size", str(BLOCK), "--enable-lora",
         "--max-loras", "1", "--max-cpu-loras", "2", "--max-lora-rank", str(RANK))  # fmt: skip
DOCUMENT = tokens(random.Random(5), 4 * BLOCK + 3)
# Name, model, and why the document's whole blocks were not found in the cache. One after the other.
SCRIPT = (
    ("plain", MODEL, "never_seen"), ("first", "law", "lora"), ("other", "code", "lora"), ("first-again", "law", None),
    ("plain-again", MODEL, None),
)  # fmt: skip


@dataclass(slots=True)
class Adapted:
    run: RunReader
    replies: list[Reply]


def adapter(folder: Path, seed: int) -> str:
    """A PEFT adapter of the attention's first and last product in every layer; `name=folder` as the engine takes it."""
    model = json.loads((MODELS / MODEL / "config.json").read_text())
    hidden, heads = model["hidden_size"], model["num_attention_heads"] * model["head_dim"]
    pick = random.Random(seed)
    tensors: dict[str, tuple[tuple[int, int], bytes]] = {}
    for layer in range(model["num_hidden_layers"]):
        for product, rows, columns in (("q_proj", heads, hidden), ("o_proj", hidden, heads)):
            name = f"base_model.model.model.layers.{layer}.self_attn.{product}"
            for half, shape in (("lora_A", (RANK, columns)), ("lora_B", (rows, RANK))):
                values = array("f", [pick.gauss(0, 0.3) for _ in range(shape[0] * shape[1])])
                tensors[f"{name}.{half}.weight"] = (shape, values.tobytes())
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.0,
        "bias": "none", "target_modules": ["q_proj", "o_proj"], "base_model_name_or_path": MODEL,
    }))  # fmt: skip
    (folder / "adapter_model.safetensors").write_bytes(safetensors(tensors))
    return f"{folder.name}={folder}"


def safetensors(tensors: dict[str, tuple[tuple[int, int], bytes]]) -> bytes:
    """Length of the head, a JSON head that says where each float32 tensor lies, and the tensors."""
    head, at = {}, 0
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": (at, at + len(data))}
        at += len(data)
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def adapted(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Adapted]:
    home = tmp_path_factory.mktemp("adapted")
    modules = ("--lora-modules", *(adapter(home / name, seed) for seed, name in enumerate(("law", "code"))))
    asks = [
        Ask(0, DOCUMENT, OUTPUT, request_id=name, after=n - 1 if n else None, extra={"model": model, "temperature": 0})
        for n, (name, model, _) in enumerate(SCRIPT)
    ]
    served = serve(MODEL, (*FLAGS, *modules), home, home / "engine.log", python=request.param)
    try:
        replies = send(served.url, MODEL, asks)
        time.sleep(TOLD_S)
    finally:
        served.end()
    assert served.stubborn == []
    yield Adapted(open_run(served.folder()), replies)


def test_all_are_answered(adapted: Adapted) -> None:
    assert [(r.ok, r.output_tokens, r.error) for r in adapted.replies] == [(True, OUTPUT, "")] * len(SCRIPT)


def test_the_time_of_adapters_is_seen_in_every_step_and_is_part_of_it(adapted: Adapted) -> None:
    row = adapted.run.one("""
        SELECT count(*) AS steps, count(lora_ns) AS seen, min(lora_ns) AS least,
               count(*) FILTER (lora_ns > worker_ns) AS more, count(draft_ns) + count(encoder_ns) AS others
        FROM steps WHERE worker_ns IS NOT NULL""")
    # The worker's record of the first step of all may be read before the engine core is known.
    assert row["steps"] == row["seen"] >= OUTPUT * len(SCRIPT) - 1
    assert (row["least"] > 0, row["more"], row["others"]) == (True, 0, 0)


def test_a_step_with_an_adapter_spends_more_on_it_than_one_without(adapted: Adapted) -> None:
    rows = adapted.run.rows("""
        SELECT q.request_id AS id, s.lora_ns AS ns FROM requests q JOIN step_runs r USING (process, request)
        JOIN steps s ON s.process = r.process AND s.step BETWEEN r.first_step AND r.last_step
        WHERE s.lora_ns IS NOT NULL""")
    without = {f"cmpl-{name}-0" for name, model, _ in SCRIPT if model == MODEL}
    took = [median(r["ns"] for r in rows if (r["id"] in without) == plain) for plain in (True, False)]
    assert took[0] < took[1]


@pytest.mark.parametrize(("name", "reason"), [(name, reason) for name, _, reason in SCRIPT])
def test_a_prompt_misses_what_another_adapter_computed(adapted: Adapted, name: str, reason: str | None) -> None:
    row = adapted.run.one("SELECT l.* FROM prefix_lookups l JOIN requests r USING (process, request) "
                          f"WHERE r.request_id = 'cmpl-{name}-0'")  # fmt: skip
    assert row["miss_reason"] == reason
    assert row[f"{reason or 'cached'}_tokens"] == 4 * BLOCK


def test_the_facts_of_adapters_are_those_of_the_committed_table(adapted: Adapted) -> None:
    seen = adapted.run.rows(
        "SELECT DISTINCT fact, role, state, engine_version FROM facts WHERE fact LIKE 'worker.lora%'")
    (version,) = {r["engine_version"] for r in seen}
    known = committed_facts(version, "cpu", "lora") - committed_facts(version, "cpu")
    assert {(r["fact"], r["role"], r["state"]) for r in seen} == known


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(adapted: Adapted, law: str) -> None:
    assert broken(adapted.run, {law: LAWS[law]}) == {}
