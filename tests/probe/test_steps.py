"""The hooks of every step, on a scheduler of our own: what a record holds, and when a step is told as `as before`."""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe import records
from pellucid_probe.guard import COST
from pellucid_probe.outbox import FULL, Outbox
from pellucid_probe.ring import SEGMENT_BYTES, RingReader, RingWriter
from pellucid_probe.vllm.kv.flow import KvFlow
from pellucid_probe.vllm.packing import Packer, reason
from pellucid_probe.vllm.steps import READ_EVERY, ScheduleHook, Steps, UpdateHook

from tests.probe.test_packing import New, Output, Outputs, Plan


class Scheduler:
    """Hands out the plans it is given and answers each request with one token."""

    max_num_scheduled_tokens, max_num_running_reqs = 100, 8
    others: tuple[str, ...] = ()    # alive and not running

    def __init__(self, plans: list[Plan]) -> None:
        self.plans = plans
        self.counts = (0, 0)
        self.deferred_waiting: set[str] = set()
        self.requests: dict[str, Any] = {}
        self.running: list[str] = []

    def get_request_counts(self) -> tuple[int, int]:
        return self.counts

    def schedule(self) -> Plan:
        plan = self.plans.pop(0)
        self.running = list(plan.num_scheduled_tokens)
        self.requests = dict.fromkeys([*self.running, *self.others])
        self.counts = (len(self.running), self.counts[1])
        return plan

    def update_from_output(self, scheduler_output: Plan, model_runner_output: Any) -> dict[int, Outputs]:  # noqa: ARG002
        return {0: Outputs([Output(name, [1]) for name in scheduler_output.num_scheduled_tokens])}


@pytest.fixture
def box() -> Iterator[tuple[Steps, RingReader]]:
    module = types.ModuleType("vllm.v1.core.sched.scheduler")
    module.Scheduler = type("Scheduler", (Scheduler,), dict(vars(Scheduler)))  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = str(Path(folder) / "engine_core-1.ring")
        outbox = Outbox(RingWriter(path, 4 * SEGMENT_BYTES))
        steps = Steps(outbox, Packer(b"k" * 32), KvFlow(outbox))
        for hook in (ScheduleHook(steps), UpdateHook(steps)):
            assert hook.install() == ""
        yield steps, RingReader(path)
    del sys.modules[module.__name__]


def run(box: tuple[Steps, RingReader], plans: list[Plan], waiting: int = 0) -> list[records.Step]:
    steps, reader = box
    engine = sys.modules["vllm.v1.core.sched.scheduler"].Scheduler(list(plans))
    engine.counts = (0, waiting)
    for _ in plans:
        plan = engine.schedule()
        engine.update_from_output(plan, model_runner_output=None)
    steps.outbox.flush()
    assert steps.outbox.errors_count == 0
    return [records.unpack_step(payload) for kind, payload in reader.poll() if kind == records.STEP]


def ones(*names: str, **more: Any) -> Plan:
    return Plan(dict.fromkeys(names, 1), **more)


def test_a_step_is_told_as_before_only_while_nobody_comes_goes_or_waits_for_a_second_token(box: Any) -> None:
    seen = run(box, [
        Plan({"a": 9, "b": 9}, [New("a"), New("b")]), ones("a", "b"), ones("a", "b"),
        ones("a", "b", "c", scheduled_new_reqs=[New("c")]), ones("b", "c", finished_req_ids={"a"}), ones("b", "c"),
        Plan({"b": 2, "c": 1}), ones("b", "c"),
    ])  # fmt: skip
    assert [s.step for s in seen] == list(range(1, 9))
    assert [s.mode & ~3 for s in seen] == [records.FULL, 0, 0, records.MOVED, records.MOVED, 0, 0, 0]
    assert [s.mode & 3 for s in seen][1:] == [0, 0, 0, 0, 0, records.BYTES, 0]
    assert [s.outputs for s in seen] == [2, 2, 2, 3, 2, 2, 2, 2]


def test_everybody_is_listed_now_and_then_though_nothing_changes(box: Any) -> None:
    every = records.FULL_EVERY
    seen = run(box, [ones("a", scheduled_new_reqs=[New("a")]), *(ones("a") for _ in range(2 * every))])
    assert [n for n, s in enumerate(seen) if s.mode & records.FULL] == [0, every, 2 * every]


def test_a_call_that_plans_nothing_is_no_step(box: Any) -> None:
    assert [s.step for s in run(box, [ones("a"), Plan({}), ones("a")])] == [1, 2]


def test_what_was_preempted_and_masked_since_the_last_step_is_told_once(box: Any) -> None:
    steps = box[0]
    steps.preempted, steps.preempted_tokens, steps.grammar_ns = 2, 30, 5_000
    seen = run(box, [ones("a"), ones("a")])
    assert [(s.preempted, s.preempted_tokens, s.grammar_ns) for s in seen] == [(2, 30, 5_000), (0, 0, 0)]


def test_our_own_cost_is_told_by_step(box: Any) -> None:
    seen = run(box, [ones("a"), ones("a"), ones("a")])
    assert all(0 < s.probe_ns < 10_000_000 for s in seen)


def test_after_a_record_that_could_not_be_packed_everybody_is_listed(box: Any) -> None:
    steps = box[0]
    steps.outbox.on_error = steps.relist
    run(box, [ones("a", scheduled_new_reqs=[New("a")]), ones("a")])
    steps.outbox.put(lambda _: records.pack_work(-1), None)
    steps.outbox.flush()
    assert steps.outbox.errors_count == 1
    steps.outbox.errors_count = 0
    assert [s.mode & records.FULL for s in run(box, [ones("a"), ones("a")])] == [records.FULL, 0]


def test_a_cost_that_fell_is_none_and_not_the_end_of_the_step(box: Any) -> None:
    """What a capture takes off the probe's cost may be more than the hooks of that step added."""
    run(box, [ones("a")])
    COST.ns -= 50_000_000
    assert [s.probe_ns for s in run(box, [ones("a")])] == [0]


def test_requests_that_wait_do_so_for_a_reason(box: Any) -> None:
    assert [s.waiting_reason for s in run(box, [ones("a"), ones("a")], waiting=3)] == [records.KV, records.KV]


@pytest.mark.parametrize(("at", "says"), [
    ({"waiting": 2, "blocked": 2}, records.DEFERRED_ONLY),
    ({"blocked": 2, "preempted": 1, "budget": 2, "cap": 1}, records.KV),
    ({"blocked": 2, "budget": 2, "cap": 1}, records.BUDGET),
    ({"cap": 2}, records.SEQUENCE_CAP),
    ({"cap": 3}, records.KV),
])  # fmt: skip
def test_waiting_has_the_reason_at_which_the_engine_stopped_admitting(at: dict[str, int], says: int) -> None:
    base = {"waiting": 3, "blocked": 0, "preempted": 0, "tokens": 2, "budget": 1000, "running": 2, "cap": 8}
    assert reason(**(base | at)) == says


def test_a_plan_whose_scheduling_nobody_saw_is_no_step(box: Any) -> None:
    steps, reader = box
    engine = sys.modules["vllm.v1.core.sched.scheduler"].Scheduler([ones("a"), ones("a")])
    plan = engine.schedule()
    steps.plans.clear()            # as after a pause
    engine.update_from_output(plan, model_runner_output=None)
    engine.update_from_output(engine.schedule(), model_runner_output=None)
    steps.outbox.flush()
    assert [records.unpack_step(payload).step for _, payload in reader.poll()] == [2]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_plans_in_flight_meet_their_own_outputs_in_whatever_order(box: Any, order: tuple[int, ...]) -> None:
    steps, reader = box
    engine = sys.modules["vllm.v1.core.sched.scheduler"].Scheduler([ones("a"), ones("a", "b"), ones("a", "b", "c")])
    plans = [engine.schedule() for _ in range(3)]
    for place in order:
        engine.update_from_output(plans[place], model_runner_output=None)
    steps.outbox.flush()
    seen = [records.unpack_step(payload) for kind, payload in reader.poll() if kind == records.STEP]
    assert [(s.step, s.running, s.requests) for s in seen] == [(n + 1, n + 1, n + 1) for n in order]
    assert steps.plans == []


@pytest.mark.parametrize(("others", "waiting"), [((), 0), (("c", "d"), 2), (("c",), 2)])
def test_nobody_waits_when_everybody_alive_runs_and_else_the_engine_is_asked(
    box: Any, others: tuple[str, ...], waiting: int
) -> None:
    steps, reader = box
    steps.quick = True
    engine = sys.modules["vllm.v1.core.sched.scheduler"].Scheduler([ones("a", "b")])
    engine.others, engine.counts = others, (0, 2)       # what it says when it is asked
    engine.update_from_output(engine.schedule(), model_runner_output=None)
    steps.outbox.flush()
    (seen,) = [records.unpack_step(payload) for kind, payload in reader.poll() if kind == records.STEP]
    assert (seen.running, seen.waiting) == (2, waiting)


def test_a_hook_flushes_where_our_thread_does_not_keep_up(box: Any) -> None:
    steps, _ = box
    engine = sys.modules["vllm.v1.core.sched.scheduler"].Scheduler([ones("a") for _ in range(FULL + 2 * READ_EVERY)])
    for _ in range(FULL + 2 * READ_EVERY):
        engine.update_from_output(engine.schedule(), model_runner_output=None)
    assert len(steps.outbox.waiting) < FULL
