"""The worker's hooks on runners of our own, of the older kind and of the newer, that draft, encode and set adapters."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pellucid_probe import records
from pellucid_probe.process import Process
from pellucid_probe.ring import SEGMENT_BYTES, RingReader
from pellucid_probe.vllm.parts import Parts
from pellucid_probe.vllm.worker import Worker

from tests.probe.stub_engine import imported

PART_MS, ROUNDS = 3, 2
LEAST_NS = PART_MS * 1_000_000
UNSEEN = [records.UNSEEN_NS] * 2
FACTS = ("worker.draft", "worker.encoder", "worker.lora")
HELD = ("worker.draft_memory", "worker.draft_kv")      # these runners have no model; see test_drafter_memory.py
ENGINE = {
    "vllm.forward_context": "def create_forward_context(attn_metadata, vllm_config): pass",
    "vllm.v1.worker.worker_base": """
class WorkerWrapperBase:
    def __init__(self, worker): self.worker = worker
    def execute_model(self, scheduler_output): return self.worker.execute_model(scheduler_output)
    def sample_tokens(self): return self.worker.sample_tokens()
""",
    "runners": f"""
import time
def work(): time.sleep({PART_MS / 1000})
class Silent:
    speculative_config = lora_config = None
    supports_mm_inputs = False
    def execute(self, images): pass
    def draft(self): pass

class Drafter(Silent):
    speculative_config = "some"
    def draft(self): return self.propose_draft_token_ids([1])
    def propose_draft_token_ids(self, sampled): work()
class RenamedDrafter(Silent):
    speculative_config = "some"
    def draft(self): work()
class Speculator:
    def propose(self, batch): work()
class NewerDrafter(Silent):
    speculative_config, speculator = "some", Speculator()
    def draft(self):
        for _ in range({ROUNDS}): self.speculator.propose([1])

class Encoder(Silent):
    supports_mm_inputs, encoder_cache = True, {{}}
    def execute(self, images): self._execute_mm_encoder(images)
    def _execute_mm_encoder(self, scheduler_output):
        work()
        return list(scheduler_output)
class EncoderRunner:
    def execute_mm_encoder(self, mm_kwargs):
        work()
        return list(mm_kwargs)
class State: encoder_runner = EncoderRunner()
class NewerEncoder(Encoder):
    model_state = State()
    def execute(self, images):
        if images: self.model_state.encoder_runner.execute_mm_encoder(images)
class NoState: pass
class RenamedEncoder(Encoder):
    model_state = NoState()
class LaterRank(RenamedEncoder):
    encoder_cache = None

class Batch:
    def make_lora_inputs(self, tokens): work()
class Manager:
    def set_active_adapters(self, requests, mapping): work()
class Adapters(Silent):
    lora_config, input_batch, lora_manager = "some", Batch(), Manager()
    def execute(self, images):
        self.input_batch.make_lora_inputs([1])
        self.lora_manager.set_active_adapters({{}}, [0])
class LoraState(Batch): pass
class NewerAdapters(Adapters):
    input_batch, lora_state = None, LoraState()
    def execute(self, images):
        self.lora_state.make_lora_inputs([1])
        self.lora_manager.set_active_adapters({{}}, [0])
class RenamedAdapters(Adapters):
    lora_manager = None
    def execute(self, images): work()

class All(Drafter, Encoder, Adapters):
    def execute(self, images):
        Encoder.execute(self, images)
        Adapters.execute(self, images)

class Worker:
    rank = 0
    def __init__(self, runner): self.model_runner = runner
    def execute_model(self, plan): self.model_runner.execute(plan.images)
    def sample_tokens(self): return self.model_runner.draft()
""",
}  # fmt: skip


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield name


@pytest.fixture
def seen(folder: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runner's name → the process's facts and the records of two steps, the first of them with an image."""
    monkeypatch.setenv("PELLUCID_RING_BYTES", str(4 * SEGMENT_BYTES))

    def run(kind: str) -> tuple[dict[str, str], list[records.Work]]:
        process = Process(folder, "worker", "vllm", "9.9.0")
        with imported(ENGINE):
            Worker(process)
            runners: Any = sys.modules["runners"]
            wrapped: Any = sys.modules["vllm.v1.worker.worker_base"]
            wrapper = wrapped.WorkerWrapperBase(runners.Worker(getattr(runners, kind)()))
            for step, images in ((1, ["image"]), (2, [])):
                wrapper.execute_model(SimpleNamespace(pellucid_step=step, images=images))
                wrapper.sample_tokens()
        process.outbox.flush()
        assert process.errors_count() == 0
        works = RingReader(str(Path(folder) / f"{process.name}.ring")).poll()
        facts = {name: fact.state for name, fact in process.facts.items() if name.startswith(FACTS)}
        return facts, [records.unpack_work(payload) for name, payload in works if name == records.WORK]

    return run


@pytest.mark.parametrize(("kind", "least_ns"), [("Drafter", LEAST_NS), ("NewerDrafter", ROUNDS * LEAST_NS)])
def test_the_time_to_propose_is_that_of_each_step_and_within_its_sampling(seen: Any, kind: str, least_ns: int) -> None:
    facts, works = seen(kind)
    assert facts == {"worker.draft_time": "visible"} | dict.fromkeys(HELD, "blind")
    assert [work.step for work in works] == [1, 2]
    for work in works:
        assert least_ns <= work.draft_ns <= work.sample_end_ns - work.sample_start_ns
        assert [work.encoder_ns, work.lora_ns] == UNSEEN


@pytest.mark.parametrize("kind", ["Encoder", "NewerEncoder"])
def test_the_encoders_time_is_that_of_steps_with_something_to_encode(seen: Any, kind: str) -> None:
    facts, (image, text) = seen(kind)
    assert facts == {"worker.encoder_time": "visible"}
    assert LEAST_NS <= image.encoder_ns <= image.execute_end_ns - image.execute_start_ns
    assert text.encoder_ns == 0
    assert [image.draft_ns, image.lora_ns] == UNSEEN


@pytest.mark.parametrize("kind", ["Adapters", "NewerAdapters"])
def test_the_time_of_adapters_is_that_of_both_calls(seen: Any, kind: str) -> None:
    facts, works = seen(kind)
    assert facts == {"worker.lora_time": "visible"}
    for work in works:
        assert 2 * LEAST_NS <= work.lora_ns <= work.execute_end_ns - work.execute_start_ns
        assert [work.draft_ns, work.encoder_ns] == UNSEEN


def test_an_engine_with_all_three_has_them_apart(seen: Any) -> None:
    facts, (image, text) = seen("All")
    assert set(facts) == {"worker.draft_time", *HELD, "worker.encoder_time", "worker.lora_time"}
    assert image.encoder_ns + image.lora_ns <= image.execute_end_ns - image.execute_start_ns
    assert min(image.draft_ns, image.encoder_ns, text.draft_ns) >= LEAST_NS
    assert (text.encoder_ns, text.lora_ns >= 2 * LEAST_NS) == (0, True)


@pytest.mark.parametrize("kind", ["Silent", "LaterRank"])
def test_of_what_the_engine_or_the_rank_does_not_have_nothing_is_said(seen: Any, kind: str) -> None:
    facts, works = seen(kind)
    assert facts == {}
    assert [[work.draft_ns, work.encoder_ns, work.lora_ns] for work in works] == [[records.UNSEEN_NS] * 3] * 2


@pytest.mark.parametrize(("kind", "blind"), [
    ("RenamedDrafter", {"worker.draft_time", *HELD}), ("RenamedEncoder", {"worker.encoder_time"}),
    ("RenamedAdapters", {"worker.lora_time"}),
])  # fmt: skip
def test_what_has_another_name_is_blind_and_no_step_has_a_time(seen: Any, kind: str, blind: set[str]) -> None:
    facts, works = seen(kind)
    assert facts == dict.fromkeys(blind, "blind")
    assert [[work.draft_ns, work.encoder_ns, work.lora_ns] for work in works] == [[records.UNSEEN_NS] * 3] * 2


def test_a_step_that_began_unwatched_has_no_time_and_the_next_one_has(folder: str) -> None:
    process = Process(folder, "worker", "vllm", "9.9.0")
    with imported(ENGINE):
        runners: Any = sys.modules["runners"]
        parts, runner = Parts(process), runners.Drafter()
        parts.look(runner)
        (hook,) = process.hooks["worker.draft_time"]
        hook.on = False
        parts.begin()
        hook.on = True      # the pause ends within the step
        runner.draft()
        assert parts.ns[0] == records.UNSEEN_NS
        parts.begin()
        runner.draft()
    assert LEAST_NS <= parts.ns[0] < records.UNSEEN_NS
