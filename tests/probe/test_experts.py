"""Where experts lie, which steps are sampled, and whose rows are whose. Counts: tests/engine/test_experts.py."""

from __future__ import annotations

import types
from typing import Any

import pytest
from pellucid_probe.process import Fact
from pellucid_probe.vllm import experts
from pellucid_probe.vllm.experts import SHARE, STRIDES, Experts, window_start
from pellucid_probe.vllm.experts.routers import in_order, in_turn, layers, placement


class Map(list[int]):
    """A rank's map from an expert's number to its own place, -1 for those of others; as a tensor has it."""

    def tolist(self) -> list[int]:
        return list(self)


def module(own: list[int] | None, count: int, rank: int, use_ep: bool = True) -> Any:
    parallel = types.SimpleNamespace(use_ep=use_ep, ep_size=count, ep_rank=rank, is_sequence_parallel=False)
    routed = types.SimpleNamespace(expert_map=None if own is None else Map(own))
    return types.SimpleNamespace(moe_config=types.SimpleNamespace(moe_parallel_config=parallel), routed_experts=routed)


def config(eplb: bool = False) -> Any:
    return types.SimpleNamespace(parallel_config=types.SimpleNamespace(enable_eplb=eplb))


def test_the_first_ranks_take_what_is_left_over() -> None:
    assert in_order(7, 3) == [0, 0, 0, 1, 1, 2, 2]
    assert in_turn(7, 3) == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(("own", "rank", "ranks"), [
    ([-1, -1, 0, 1], 1, [0, 0, 1, 1]), ([-1, 0, -1, 1], 1, [0, 1, 0, 1]), ([0, 1, -1, -1], 0, [0, 0, 1, 1]),
])  # fmt: skip
def test_the_order_is_the_one_that_gives_this_rank_its_own(own: list[int], rank: int, ranks: list[int]) -> None:
    placed = placement(module(own, 2, rank), config(), 4)
    assert (placed.ranks, placed.spread, placed.fault) == (ranks, 2, "")


def test_an_order_nobody_knows_is_not_guessed() -> None:
    for own in ([0, -1, -1, 1], None):
        placed = placement(module(own, 2, 0), config(), 4)
        assert placed.ranks is None and "not known" in placed.fault


def test_experts_that_move_have_no_rank() -> None:
    placed = placement(module([0, 1, -1, -1], 2, 0), config(eplb=True), 4)
    assert (placed.ranks, placed.spread) == (None, 2) and "moves" in placed.fault


def test_without_expert_parallelism_a_rank_has_a_part_of_all() -> None:
    assert placement(module(None, 4, 0, use_ep=False), config(), 4)[:2] == (None, 1)


def test_a_router_that_does_not_tell_and_one_inside_a_kernel_are_faults() -> None:
    router = types.SimpleNamespace(set_capture_fn=print, global_num_experts=4, top_k=2)
    plain, fused, silent = module(None, 1, 0), module(None, 1, 0), module(None, 1, 0)
    plain.router, fused.router, silent.router = router, types.SimpleNamespace(**vars(router)), object()
    fused.is_monolithic = True
    found, faults = layers([plain, plain, fused, silent, object()], config())
    assert [(layer.experts, layer.top_k) for layer in found] == [(4, 2)]
    assert len(faults) == 2 and "object" in faults[1]


class Quiet:
    """A process with nothing in it."""

    shed_level = 0

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}

    def see(self, fact: str, _hooks: list[Any]) -> bool:
        self.facts[fact] = Fact("visible")
        return True

    def blind(self, fact: str, reason: str, collect: str) -> None:
        self.facts[fact] = Fact("blind", reason, collect)


def counter() -> Experts:
    made = Experts(Quiet())  # type: ignore[arg-type]
    made.on = True
    return made


def sampled(made: Experts, steps: range) -> list[int]:
    found = []
    for step in steps:
        made.begin(step)
        if made.taking:
            found.append(step)
    return found


def test_steps_are_sampled_by_their_number() -> None:
    assert sampled(counter(), range(200)) == [61, 122, 183]


@pytest.mark.parametrize(("part", "stride"), [(SHARE, 7), (6.9 * SHARE, 7), (7.1 * SHARE, 13), (1e9, STRIDES[-1])])
def test_the_stride_keeps_counting_within_its_share(part: float, stride: int) -> None:
    made = counter()
    for _ in range(experts.LOOK_EVERY):
        made._choose_stride(round(1_000_000 * part), 1_000_000)
    assert sampled(made, range(1, 2 * stride))[0] == stride


def test_a_probe_over_its_budget_samples_seldom_then_stops_and_says_so() -> None:
    made = counter()
    made.process.shed_level = 1  # type: ignore[misc]
    assert sampled(made, range(1, 1200)) == [STRIDES[-1]]
    made.process.shed_level = 2  # type: ignore[misc]
    assert sampled(made, range(1, 1200)) == []
    assert not made.on and made.process.facts["worker.experts"].state == "blind"


def test_windows_are_short_at_first_and_longer_later_and_begin_together() -> None:
    """Of 10 s. Two workers that began in the same minute, 300 s after which the next whole minute begins."""
    s = 1_000_000_000
    starts = [[window_start(n * s, first * s, 10 * s) // s for n in range(60, 600)] for first in (62, 95)]
    assert starts[0] == starts[1]
    assert sorted(set(starts[0])) == [*range(60, 420, 10), 420, 480, 540]


def plan(new: dict[str, str | None], finished: set[str], **shares: int) -> Any:
    asks = [types.SimpleNamespace(req_id=n, sampling_params=types.SimpleNamespace(extra_args=t and {"task": t}))
            for n, t in new.items()]  # fmt: skip
    return types.SimpleNamespace(scheduled_new_reqs=asks, finished_req_ids=finished, num_scheduled_tokens=shares)


def runner(*names: str) -> Any:
    return types.SimpleNamespace(input_batch=types.SimpleNamespace(req_ids=list(names)))


def test_rows_belong_to_tasks_in_the_order_of_the_batch() -> None:
    made = counter()
    made._note_labels(plan({"a": "chat", "b": None, "c": "code"}, set()))
    step = plan({}, set(), a=3, b=1, c=2)
    assert made._rows_by_label(step, runner("c", "a", "b"), 6) == [(2, 2), (1, 3), (0, 1)]
    with pytest.raises(ValueError, match="6 tokens in the batch, 7 scheduled"):
        made._rows_by_label(step, runner("c", "a", "b"), 7)


def test_labels_beyond_the_last_are_counted_without_one() -> None:
    made = counter()
    made._note_labels(plan({str(n): f"task {n}" for n in range(20)}, set()))
    assert made._rows_by_label(plan({}, set(), **{"14": 1, "15": 1}), runner("14", "15"), 2) == [(15, 1), (0, 1)]
    made._note_labels(plan({}, {"14"}))
    assert made._rows_by_label(plan({}, set(), **{"14": 1}), runner("14"), 1) == [(0, 1)]
