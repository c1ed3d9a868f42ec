"""The engine core's packing: numbers hold as long as a batch needs them, frames are deltas that can be read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pellucid_probe import records
from pellucid_probe.vllm.packing import KEPT_STEPS, Done, Packer, Planned


@dataclass
class New:
    req_id: str
    num_computed_tokens: int = 0


@dataclass
class Cached:
    req_ids: list[str] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)
    resumed_req_ids: set[str] = field(default_factory=set)


@dataclass
class Plan:
    num_scheduled_tokens: dict[str, int]
    scheduled_new_reqs: list[New] = field(default_factory=list)
    scheduled_cached_reqs: Cached = field(default_factory=Cached)
    finished_req_ids: set[str] = field(default_factory=set)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


def add(packer: Packer, request_id: str) -> int:
    (kind, payload), = packer.added({"i": request_id, "t": 1, "h": None})
    assert kind == records.ADD
    return int(records.unpack_json(payload)["r"])


def free(packer: Packer, request_id: str) -> int:
    (kind, payload), = packer.freed({"i": request_id, "t": 1, "s": "length"})
    assert kind == records.FINISH
    return int(records.unpack_json(payload)["r"])


def planned(**changed: Any) -> Planned:
    base = Planned(10, 20, 0, 0, 0, 1000, 8, (1, 2, 3, 100, 60, 5, 1), 0, 0)
    return base._replace(**changed)


def step(packer: Packer, number: int, plan: Plan, **changed: Any) -> tuple[list[records.Admit], records.Step]:
    changed.setdefault("running", len(plan.num_scheduled_tokens))
    found = packer.step(Done(number, planned(**changed), plan, 30, 40, len(plan.num_scheduled_tokens), 0, 0, True, 5))
    *admits, last = found
    assert [kind for kind, _ in admits] == [records.ADMIT] * len(admits)
    return [records.unpack_admit(payload) for _, payload in admits], records.unpack_step(last[1])


def test_a_request_freed_in_a_steps_update_keeps_its_number_in_that_step_and_in_one_in_flight() -> None:
    packer = Packer(b"k" * 32)
    a, b = add(packer, "a"), add(packer, "b")
    step(packer, 1, Plan({"a": 5, "b": 7}, [New("a"), New("b")]))
    assert free(packer, "b") == b
    for number in (2, 3):
        _, seen = step(packer, number, Plan({"b": 1, "a": 1}))
        assert records.read_members(seen) in ([b, a], None)
    _, seen = step(packer, 4, Plan({"b": 2, "a": 1, "c": 1}))
    assert (records.read_members(seen) or [])[:2] == [b, a]


def test_a_number_is_forgotten_after_a_while_and_an_id_that_comes_again_is_another_request() -> None:
    packer = Packer(b"k" * 32)
    first = add(packer, "a")
    step(packer, 1, Plan({"a": 5}, [New("a")]))
    free(packer, "a")
    second = add(packer, "a")
    assert second != first
    for number in range(2, KEPT_STEPS + 9):
        step(packer, number, Plan({"a": 1}))
    assert packer._numbers == {"a": second}
    free(packer, "a")
    for number in range(20, 20 + KEPT_STEPS + 3):
        step(packer, number, Plan({"x": 1}))
    assert "a" not in packer._numbers


@pytest.mark.parametrize(("counts", "mode"), [
    ({"a": 1, "b": 1}, records.SAME_ONES), ({"a": 255, "b": 1}, records.SAME_BYTES),
    ({"a": 256, "b": 1}, records.SAME_WORDS), ({"b": 1, "a": 1}, records.FULL), ({"a": 1}, records.FULL),
])  # fmt: skip
def test_a_frame_is_the_smallest_that_tells_the_batch(counts: dict[str, int], mode: int) -> None:
    packer = Packer(b"k" * 32)
    numbers = {name: add(packer, name) for name in ("a", "b")}
    step(packer, 1, Plan({"a": 9, "b": 9}, [New("a"), New("b")]))
    _, seen = step(packer, 2, Plan(counts), running=5)
    assert seen.mode == mode
    assert (records.read_counts(seen) or [1] * len(counts)) == list(counts.values())
    if mode == records.FULL:
        assert records.read_members(seen) == [numbers[name] for name in counts]


@pytest.mark.parametrize("comes", [
    {"scheduled_new_reqs": [New("c")]}, {"finished_req_ids": {"z"}},
    {"scheduled_cached_reqs": Cached(["b"], [3], {"b"})},
])  # fmt: skip
def test_the_members_are_looked_at_when_anybody_came_or_went(comes: dict[str, Any]) -> None:
    packer = Packer(b"k" * 32)
    for name in ("a", "b"):
        add(packer, name)
    step(packer, 1, Plan({"a": 1, "b": 1}, [New("a"), New("b")]))
    _, same = step(packer, 2, Plan({"a": 1, "b": 1}))
    assert same.mode == records.SAME_ONES
    _, seen = step(packer, 3, Plan({"a": 1, "c": 1}, **comes))
    assert seen.mode == records.FULL


def test_admissions_come_before_their_step_with_what_was_found_computed() -> None:
    packer = Packer(b"k" * 32)
    a, b = add(packer, "a"), add(packer, "b")
    admits, _ = step(packer, 1, Plan({"a": 5, "b": 5}, [New("a", 16)], Cached(["b"], [32], {"b"})))
    assert admits == [records.Admit(a, 0, 1, 16), records.Admit(b, 1, 1, 32)]


@pytest.mark.parametrize(("left", "reason"), [
    ({"waiting": 0}, records.NOT_WAITING),
    ({"waiting": 2, "deferred": 2}, records.DEFERRED_ONLY),
    ({"waiting": 3, "deferred": 2, "preempted": 1, "token_budget": 2, "sequence_cap": 1}, records.KV),
    ({"waiting": 3, "deferred": 2, "token_budget": 2, "sequence_cap": 1}, records.BUDGET),
    ({"waiting": 3, "sequence_cap": 2}, records.SEQUENCE_CAP),
    ({"waiting": 3, "sequence_cap": 3}, records.KV),
])  # fmt: skip
def test_waiting_has_the_reason_at_which_the_engine_stopped_admitting(left: dict[str, int], reason: int) -> None:
    packer = Packer(b"k" * 32)
    _, seen = step(packer, 1, Plan({"a": 1, "b": 1}), **left)
    assert seen.waiting_reason == reason


def test_a_full_frame_comes_now_and_then_though_nothing_changes() -> None:
    every = records.FULL_EVERY
    for running in (1, 2):       # all run, or some only
        packer = Packer(b"k" * 32)
        modes = [step(packer, n, Plan({"a": 1}), running=running)[1].mode for n in range(1, 2 * every + 2)]
        assert [n for n, mode in enumerate(modes) if mode == records.FULL] == [0, every, 2 * every]


def test_the_first_blocks_hash_is_keyed() -> None:
    added = [Packer(key).added({"i": "a", "h": b"block"}) for key in (b"1" * 32, b"2" * 32)]
    first, second = (records.unpack_json(found[0][1])["h"] for found in added)
    assert first != second
    assert len(first) == 16
