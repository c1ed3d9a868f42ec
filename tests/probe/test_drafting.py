"""The worker's hooks on a runner of our own that drafts: of the older kind, of the newer kind, and not at all."""

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
from pellucid_probe.vllm.worker import Worker

from tests.probe.stub_engine import imported

DRAFT_MS, ROUNDS = 3, 2
ENGINE = {
    "vllm.forward_context": "def create_forward_context(attn_metadata, vllm_config): pass",
    "vllm.v1.worker.worker_base": """
class WorkerWrapperBase:
    def __init__(self, worker): self.worker = worker
    def execute_model(self, scheduler_output): return None
    def sample_tokens(self): return self.worker.sample_tokens()
""",
    "runners": f"""
import time
class Older:
    speculative_config = "some"
    def draft(self): return self.propose_draft_token_ids([1])
    def propose_draft_token_ids(self, sampled): time.sleep({DRAFT_MS / 1000})
class Silent(Older):
    speculative_config = None
class Renamed:
    speculative_config = "some"
    def draft(self): time.sleep({DRAFT_MS / 1000})
class Speculator:
    def propose(self, batch): time.sleep({DRAFT_MS / 1000})
class Newer:
    speculative_config = "some"
    speculator = Speculator()
    def draft(self):
        for _ in range({ROUNDS}): self.speculator.propose([1])
class Worker:
    rank = 0
    def __init__(self, runner): self.model_runner = runner
    def sample_tokens(self): return self.model_runner.draft()
""",
}  # fmt: skip


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runner's name → the process's facts and the records of two steps."""
    monkeypatch.setenv("PELLUCID_RING_BYTES", str(4 * SEGMENT_BYTES))

    def run(kind: str) -> tuple[dict[str, str], list[records.Work]]:
        process = Process(folder, "worker", "vllm", "9.9.0")
        with imported(ENGINE):
            Worker(process)
            runners: Any = sys.modules["runners"]
            wrapped: Any = sys.modules["vllm.v1.worker.worker_base"]
            wrapper = wrapped.WorkerWrapperBase(runners.Worker(getattr(runners, kind)()))
            for step in (1, 2):
                wrapper.execute_model(SimpleNamespace(pellucid_step=step))
                wrapper.sample_tokens()
        process.outbox.flush()
        assert process.errors_count() == 0
        works = RingReader(str(Path(folder) / f"{process.name}.ring")).poll()
        facts = {name: fact.state for name, fact in process.facts.items() if name.startswith("worker.draft")}
        return facts, [records.unpack_work(payload) for name, payload in works if name == records.WORK]

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield run


@pytest.mark.parametrize(("kind", "least_ms"), [("Older", DRAFT_MS), ("Newer", ROUNDS * DRAFT_MS)])
def test_the_time_to_propose_is_that_of_each_step_and_within_it(seen: Any, kind: str, least_ms: int) -> None:
    facts, works = seen(kind)
    assert facts == {"worker.draft_time": "visible", "worker.draft_memory": "blind"}
    assert [work.step for work in works] == [1, 2]
    for work in works:
        assert least_ms * 1_000_000 <= work.draft_ns <= work.sample_end_ns - work.sample_start_ns


def test_without_speculation_nothing_is_said_about_drafts(seen: Any) -> None:
    facts, works = seen("Silent")
    assert facts == {}
    assert [work.draft_ns for work in works] == [records.UNSEEN_NS] * 2


def test_a_runner_that_proposes_otherwise_is_blind_and_no_step_has_a_time(seen: Any) -> None:
    facts, works = seen("Renamed")
    assert facts == {"worker.draft_time": "blind", "worker.draft_memory": "blind"}
    assert [work.draft_ns for work in works] == [records.UNSEEN_NS] * 2
