"""Whole recordings of a made-up engine: each has one cause, and `why` finds that one and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.verbs.why import why
from tests.diagnose.engine_model import Ask, Shape, serve, write_run

pytestmark = pytest.mark.slow


def stream(count: int, every_ms: float, prompt: int, output: int, seed: int = 0, start_ms: float = 0) -> list[Ask]:
    rnd = random.Random(seed)
    asks, at_ms = [], start_ms
    for _ in range(count):
        at_ms += rnd.expovariate(1 / every_ms)
        asks.append(Ask(at_ms, int(prompt * rnd.uniform(0.7, 1.3)), int(output * rnd.uniform(0.7, 1.3))))
    return asks


@dataclass(frozen=True)
class Scene:
    name: str
    shape: Shape
    asks: list[Ask]
    finds: str | None
    setting: str = ""


ODD_PROMPTS = stream(40, 1500, 2000, 20, seed=1)
BY_HAND = {"num_gpu_blocks_override": 240}
SCENES = [
    Scene("light load", Shape(), stream(100, 500, 80, 40), None),
    Scene("busy, nobody waits", Shape(fixed_ms=20, per_token_ms=0.05), stream(200, 100, 80, 40), None),
    Scene("one at a time", Shape(cap=1), stream(20, 3000, 80, 40), None),
    Scene("a burst at the start", Shape(cap=4), [Ask(0, 60, 60)] * 12 + stream(60, 800, 60, 40, start_ms=3000), None),
    Scene("a burst at the end", Shape(cap=4), stream(60, 800, 60, 40) + [Ask(50_000, 60, 60)] * 12, None),
    Scene("more load than compute", Shape(fixed_ms=10, per_token_ms=1, cap=256), stream(300, 100, 200, 20), None),
    Scene("short prompts beside decodes", Shape(budget=8192), stream(200, 250, 120, 60), None),
    Scene("full cache without eviction", Shape(blocks=64, cap=8, budget=512), stream(60, 1500, 60, 40), None),
    Scene("a tiny model", Shape(fixed_ms=0.5, per_token_ms=0.005), stream(400, 60, 60, 60), None),
    Scene("few places", Shape(cap=4), stream(150, 250, 60, 60), "queue.sequence_cap_binding", "--max-num-seqs 42"),
    Scene("small budget", Shape(budget=64, cap=32, fixed_ms=60), stream(150, 350, 400, 30),
          "queue.token_budget_binding", "--max-num-batched-tokens 1024"),
    Scene("long prompts, large budget", Shape(budget=8192), stream(150, 400, 60, 60) + ODD_PROMPTS,
          "batch.prefill_stalling_decode", "--max-num-batched-tokens 128"),
    Scene("small cache", Shape(blocks=60, cap=16), stream(120, 150, 60, 100),
          "kv.preemption_storm", "--max-num-seqs 5"),
    Scene("blocks for few prompts", Shape(blocks=240, cap=32, fixed_ms=60, per_token_ms=0.1, config=BY_HAND),
          stream(200, 60, 300, 6), "kv.too_small", "--num-gpu-blocks-override 562"),
    Scene("slow engine core", Shape(fixed_ms=3, per_token_ms=0.01, schedule_ms=2, update_ms=1, gap_ms=1),
          stream(400, 60, 60, 60), "host.engine_core_busy", "--data-parallel-size 2"),
    Scene("slow way to the worker", Shape(fixed_ms=3, per_token_ms=0.01, handover_ms=4), stream(400, 60, 60, 60),
          "host.engine_core_busy", "--data-parallel-size 2"),
]  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=lambda s: s.name)
def test_the_cause_and_nothing_else_is_found(tmp_path: Path, scene: Scene) -> None:
    answer = why(write_run(tmp_path, serve(scene.shape, scene.asks)))
    assert [f["id"] for f in answer["findings"]] == ([scene.finds] if scene.finds else []), answer["clear"]
    assert answer["broken"] == answer["blind"] == []
    if scene.finds:
        assert scene.setting in [m["setting"] for m in answer["findings"][0]["moves"]]


def test_the_cap_that_was_advised_heals(tmp_path: Path) -> None:
    answer = why(write_run(tmp_path, serve(Shape(cap=42), stream(150, 250, 60, 60))))
    assert answer["findings"] == []
    assert answer["healthy"]


def test_the_requests_that_were_advised_stop_the_storm(tmp_path: Path) -> None:
    answer = why(write_run(tmp_path, serve(Shape(blocks=60, cap=5), stream(120, 150, 60, 100))))
    assert "kv.preemption_storm" not in [f["id"] for f in answer["findings"]]


def test_the_blocks_that_were_advised_let_all_run(tmp_path: Path) -> None:
    shape = Shape(blocks=562, cap=32, fixed_ms=60, per_token_ms=0.1)
    answer = why(write_run(tmp_path, serve(shape, stream(200, 60, 300, 6))))
    assert "kv.too_small" not in [f["id"] for f in answer["findings"]]


def test_the_chunk_that_was_advised_ends_the_stalls(tmp_path: Path) -> None:
    answer = why(write_run(tmp_path, serve(Shape(budget=128), stream(150, 400, 60, 60) + ODD_PROMPTS)))
    assert "batch.prefill_stalling_decode" not in [f["id"] for f in answer["findings"]]


def test_the_budget_that_was_advised_heals(tmp_path: Path) -> None:
    shape = Shape(budget=1024, cap=32, fixed_ms=60)
    answer = why(write_run(tmp_path, serve(shape, stream(150, 350, 400, 30))))
    assert "queue.token_budget_binding" not in [f["id"] for f in answer["findings"]]
