"""A differing engine degrades fact by fact: each name the probe relies on is taken away or changed, one at a time."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pellucid_probe import kv_records, records
from pellucid_probe.guard import MAX_ERRORS, Target
from pellucid_probe.process import Process
from pellucid_probe.ring import SEGMENT_BYTES, RingReader
from pellucid_probe.vllm import arm, config, engine_core, frontend, parts, worker
from pellucid_probe.vllm.offline import plan

from tests.probe import stub_engine
from tests.probe.stub_engine import TARGETS, source, write
from tests.probe.test_packing import Plan
from tests.probe.test_steps import Scheduler
from tools.check_wheel import check
from tools.wheel.reads import READS, SCHEDULER, Read
from tools.wheel.source import open_source

ROLES = {"frontend": frontend.Frontend, "engine_core": engine_core.EngineCore, "worker": worker.Worker}
NEVER = set(plan.NEVER)             # blind in every version
WITH_A_PLAN = set(parts.TARGETS)    # a process tells of them when its first step comes: tests/probe/test_parts.py
CONFIG = SimpleNamespace(
    parallel_config=SimpleNamespace(data_parallel_rank=0),
    cache_config=SimpleNamespace(enable_prefix_caching=True, block_size=16),
)
OFFLOADING = SimpleNamespace(connector_scheduler=SimpleNamespace(manager=object()))
WORKING = {**{name: value for name, value in vars(Scheduler).items() if not name.startswith("__")},
           "deferred_waiting": (), "requests": {}, "counts": (1, 0)}  # fmt: skip
STEPS = 2 * MAX_ERRORS
ALL = sum(value for name, value in vars(records).items() if name.startswith("SEEN_"))
CHANGES = [({change: target}, target) for target in TARGETS for change in ("gone", "renamed")]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setenv("PELLUCID_RING_BYTES", str(4 * SEGMENT_BYTES))
    monkeypatch.delenv("PELLUCID_EXPERTS_EVERY", raising=False)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        key = Path(folder, "control.key")
        key.touch(0o600)
        key.write_bytes(bytes(32))
        monkeypatch.setenv("PELLUCID_CONTROL", str(key))
        yield Process(folder, "worker", "vllm", "9.9.0")


def hooked(process: Process) -> dict[str, str]:
    """All three roles in one process, and a scheduler made: fact → why it is blind, "" if it is visible."""
    for make in ROLES.values():
        make(process)
    scheduler = importlib.import_module(engine_core.INIT.module).Scheduler
    if scheduler.__init__ is not object.__init__:
        scheduler.connector = OFFLOADING
        scheduler(CONFIG)
    return {fact: seen.reason for fact, seen in process.facts.items() if fact not in NEVER}


def relying_on(target: Target) -> set[str]:
    """Facts whose hooks go there, and those that are seen with them."""
    named = {fact for role in plan.ROLES.values() for fact, targets in role.items() if target in targets}
    return named | following(named)


def following(blind: set[str]) -> set[str]:
    """What is seen only with these, directly or in turn."""
    more = {fact for fact, others in plan.WITH.items() if blind & set(others)} - blind
    return more | following(blind | more) if more else set()


def test_an_engine_with_every_name_shows_every_fact(process: Process) -> None:
    with stub_engine.imported(source()):
        seen = hooked(process)
    assert {fact: reason for fact, reason in seen.items() if reason} == {}
    assert {fact for role in plan.ROLES.values() for fact in role} - WITH_A_PLAN <= seen.keys()


@pytest.mark.parametrize("lives", ["0", "1"], ids=["without lives on the device", "with them"])
def test_after_a_pause_nothing_is_known_of_blocks_of_any_tier(
    process: Process, monkeypatch: pytest.MonkeyPatch, lives: str
) -> None:
    monkeypatch.setenv("PELLUCID_KV_LIVES", lives)
    with stub_engine.imported(source()):
        engine_core.EngineCore(process)
        importlib.import_module(engine_core.INIT.module).Scheduler(CONFIG)
        process.pause(True)
        process.pause(False)
    process.outbox.flush()
    told = RingReader(f"{process.where}/{process.name}.ring").poll()
    assert [kind for kind, _ in told if kind == kv_records.KV_LOST] == [kv_records.KV_LOST]
    assert process.errors_count() == 0


@pytest.mark.parametrize(("change", "target"), CHANGES, ids=[f"{t.name} {next(iter(c))}" for c, t in CHANGES])
def test_a_name_that_changed_blinds_its_own_facts_and_no_other(
    process: Process, change: dict[str, Target], target: Target
) -> None:
    with stub_engine.imported(source(**change)):  # type: ignore[arg-type]
        seen = hooked(process)
    blind = {fact: reason for fact, reason in seen.items() if reason}
    assert blind.keys() == relying_on(target) - WITH_A_PLAN
    assert {reason for reason in blind.values() if target.name not in reason} == set()


LATER = {"requests"}     # read in each step; the hook falls silent there and says so
LOOKED_AT = {wanted: read for reads in READS.values() for read in reads
             if read[:2] == SCHEDULER for wanted in read.attributes if wanted not in LATER}  # fmt: skip


def readers(read: Read, gone: str) -> set[str]:
    """Facts that read this attribute of this class, or these two in place of each other."""
    lost = set(gone.split("|"))
    return {fact for fact, reads in READS.items() for other in reads if other[:2] == read[:2]
            if any(set(wanted.split("|")) <= lost for wanted in other.attributes)}  # fmt: skip


@pytest.mark.parametrize("wanted", LOOKED_AT)
def test_what_a_scheduler_does_not_have_blinds_what_is_read_from_it(process: Process, wanted: str) -> None:
    read = LOOKED_AT[wanted]
    with stub_engine.imported(source(unread=(read, wanted))):
        seen = hooked(process)
    blind = readers(read, wanted)
    assert blind
    assert {name for name, reason in seen.items() if reason} == blind | following(blind)


@pytest.mark.parametrize(("wanted", "unseen"), [
    ("max_num_active_reqs|max_num_running_reqs", records.SEEN_LIMITS + records.SEEN_WAITING),
    ("max_num_scheduled_tokens", records.SEEN_LIMITS + records.SEEN_WAITING),
    ("get_request_counts", records.SEEN_WAITING), ("deferred_waiting|skipped_waiting", records.SEEN_WAITING),
    ("kv_cache_manager", records.SEEN_KV_BLOCKS), ("", 0),
])  # fmt: skip
def test_a_step_is_recorded_without_what_the_scheduler_does_not_have(
    process: Process, wanted: str, unseen: int
) -> None:
    read = Read(*SCHEDULER, (wanted,))
    with stub_engine.imported(source(unread=(read, wanted))):
        kind = importlib.import_module(engine_core.INIT.module).Scheduler
        for name in WORKING.keys() - wanted.split("|"):
            setattr(kind, name, WORKING[name])
        core = engine_core.EngineCore(process)
        scheduler = kind(CONFIG)
        scheduler.plans = [Plan({"a": 1}) for _ in range(STEPS)]
        for _ in range(STEPS):
            scheduler.update_from_output(scheduler.schedule(), None)
    process.outbox.flush()
    told = [p for kind, p in RingReader(f"{process.where}/{process.name}.ring").poll() if kind == records.STEP]
    assert [records.unpack_step(payload).seen for payload in told] == [ALL - unseen] * STEPS
    assert process.errors_count() == 0
    assert core.steps.seen == ALL - unseen


IMAGE = SimpleNamespace(identifier="cat", mm_position=SimpleNamespace(offset=1))


@pytest.mark.parametrize(("shown", "inputs", "reason"), [
    ({"mm_features": []}, [], ""), ({"mm_features": [IMAGE]}, [1], ""), ({}, None, "mm_features"),
    ({"mm_features": [SimpleNamespace(identifier="cat")]}, None, "mm_position"),
], ids=["text", "an image", "no features", "a feature of another kind"])  # fmt: skip
def test_an_engine_that_does_not_show_its_images_costs_that_fact_only(
    process: Process, shown: dict[str, list[SimpleNamespace]], inputs: list[int] | None, reason: str
) -> None:
    params = SimpleNamespace(extra_args=None, temperature=1.0, top_p=1.0, top_k=0, seed=None)
    request = SimpleNamespace(
        request_id="r", client_index=0, num_prompt_tokens=2, max_tokens=1, sampling_params=params,
        block_hashes=[b"h" * 8] * 2, prompt_token_ids=[3, 4], **shown)  # fmt: skip
    with stub_engine.imported(source()):
        engine_core.EngineCore(process)
        importlib.import_module(engine_core.INIT.module).Scheduler(CONFIG).add_request(request)
    process.outbox.flush()
    told = RingReader(f"{process.where}/{process.name}.ring").poll()
    (prompt,) = [kv_records.unpack_prompt(payload) for kind, payload in told if kind == kv_records.KV_PROMPT]
    assert (None if prompt.inputs is None else [at for at, _ in prompt.inputs]) == inputs
    assert reason in process.facts["kv.multimodal"].reason
    assert {fact for fact, seen in process.facts.items() if seen.reason} == ({"kv.multimodal"} if reason else set())
    assert process.errors_count() == 0


@pytest.mark.parametrize(("change", "target"), CHANGES, ids=[f"{t.name} {next(iter(c))}" for c, t in CHANGES])
def test_what_is_read_from_source_agrees_with_what_is_imported(
    tmp_path: Path, change: dict[str, Target], target: Target
) -> None:
    texts = source(**change)  # type: ignore[arg-type]
    with stub_engine.imported(texts):
        found = plan.plan()["facts"]
    read = check(open_source(write(texts, tmp_path)))["facts"]
    assert {fact: seen["state"] for fact, seen in read.items()} == {fact: s["state"] for fact, s in found.items()}
    assert {fact for fact, seen in read.items() if seen["state"] == "blind"} - NEVER == relying_on(target)


def test_a_role_that_cannot_be_armed_says_why_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def broken(_process: Process) -> None:
        tried.append("once")
        raise KeyError("ours")

    monkeypatch.setattr(frontend, "Frontend", broken)
    monkeypatch.setattr(arm, "_process", None)
    monkeypatch.setattr(arm, "_armed", {})
    monkeypatch.setattr(arm, "_refused", False)
    monkeypatch.setattr(config, "engine_version", lambda: "9.99.0")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setenv("PELLUCID_DIR", folder)
        arm.arm("frontend")
        arm.arm("frontend")
        (said,) = Path(folder).glob("frontend-*.json")
        assert {k: v for k, v in json.loads(said.read_text()).items() if k in ("state", "reason")} == {
            "state": "off", "reason": "KeyError: 'ours'"}  # fmt: skip
    assert tried == ["once"]
