"""What may be written into a scheduler, and when: only what it goes on with, and between two of its steps."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pellucid_probe.control import Refused
from pellucid_probe.vllm.labels import HEADER_TASK
from pellucid_probe.vllm.live import CORE, NotHere
from pellucid_probe.vllm.live.changes import StepChanges


def scheduler(**changed: Any) -> Any:
    config = SimpleNamespace(max_num_batched_tokens=2048, enable_chunked_prefill=True, long_prefill_token_threshold=0)
    pool = SimpleNamespace(num_gpu_blocks=64)
    made = SimpleNamespace(
        scheduler_config=config, max_num_active_reqs=16, max_num_running_reqs=16, max_num_scheduled_tokens=2048,
        num_spec_tokens=3, max_model_len=1024, adaptive_long_prefill_threshold=False, scheduler_reserve_full_isl=True,
        kv_cache_manager=SimpleNamespace(watermark_blocks=0, block_pool=pool), dynamic_sd_lookup=None, running=[],
    )  # fmt: skip
    for name, value in changed.items():
        setattr(config if hasattr(config, name) else made, name, value)
    return made


def changes() -> StepChanges:
    return StepChanges(SimpleNamespace(due=None, scheduled=41))


def knob(name: str, of: Any, put: StepChanges | None = None) -> Any:
    return CORE[name](of, put or changes())


@pytest.mark.parametrize(("name", "good", "bad"), [
    ("sequence_cap", [1, 16], [0, 17, True, "4", 4.0, None]),
    ("scheduled_token_budget", [4, 2048], [0, 3, 2049, False, 64.0]),
    ("long_prefill_threshold", [0, 4, 1024], [1, 3, 1025, -1, False, None]),
    ("long_prefill_adaptive", [True, False], [0, 1, "true", None]),
    ("reserve_full_prompt", [True, False], [0, 1, "true", None]),
    ("admission_watermark", [0, 0.5, 0.999], [1, -0.1, True, "0.5", float("nan"), float("inf")]),
    ("no_drafts_for_tasks", [[], ["a", "b"]], ["a", [""], ["a" * 65], [1], ["a"] * 65, None, {"a": 1}]),
])  # fmt: skip
def test_only_what_the_engine_goes_on_with_is_taken(name: str, good: list[Any], bad: list[Any]) -> None:
    seen = knob(name, scheduler())
    for value in good:
        seen.take(value)
    for value in bad:
        with pytest.raises(Refused):
            seen.take(value)


@pytest.mark.parametrize(("changed", "least", "most"), [
    ({"num_spec_tokens": 0}, 1, 2048), ({"num_spec_tokens": 7}, 8, 2048),
    ({"max_num_scheduled_tokens": 512}, 4, 512),                        # with drafts: what the engine started with
    ({"max_num_scheduled_tokens": 512, "num_spec_tokens": 0}, 1, 2048),
    ({"enable_chunked_prefill": False}, 1024, 2048),
    ({"need_mamba_block_aligned_split": True, "block_size": 528}, 528, 2048),
])  # fmt: skip
def test_a_budget_with_which_somebody_would_wait_for_ever_is_refused(
    changed: dict[str, Any], least: int, most: int
) -> None:
    seen = knob("scheduled_token_budget", scheduler(**changed))
    assert (seen.least, seen.most) == (least, most)


@pytest.mark.parametrize(("name", "changed", "reason"), [
    ("long_prefill_threshold", {"enable_chunked_prefill": False}, "chunked prefill is off"),
    ("no_drafts_for_tasks", {"num_spec_tokens": 0}, "speculation is not configured"),
    ("draft_table", {}, "not started with draft lengths"),
])  # fmt: skip
def test_what_this_engine_does_not_do_is_not_offered(name: str, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotHere, match=reason):
        knob(name, scheduler(**changed))


@pytest.mark.parametrize("name", sorted(CORE.keys() - {"draft_table", "no_drafts_for_tasks"}))
def test_an_engine_without_the_attribute_has_not_the_knob(name: str) -> None:
    bare = SimpleNamespace(scheduler_config=SimpleNamespace(enable_chunked_prefill=True), num_spec_tokens=0,
                           max_num_running_reqs=4, max_model_len=8)  # fmt: skip
    with pytest.raises(AttributeError):
        knob(name, bare)


def test_a_draft_table_has_every_batch_size_and_only_lengths_of_the_start() -> None:
    of = scheduler(dynamic_sd_lookup=[0, 3, 3, 0, 0])
    seen = knob("draft_table", of)
    assert seen.shown(of.dynamic_sd_lookup) == [[1, 2, 3], [3, 4, 0]]
    assert seen.take([[1, 1, 3], [2, 4, 0]]) == [0, 3, 0, 0, 0]
    uneven = ([[1, 3, 0]], [[2, 4, 0]], [[1, 5, 0]], [[1, 2, 0], [2, 4, 3]])
    for bad in ([[1, 4, 2]], [], [[1, 4]], [[1, 4, True]], *uneven):
        with pytest.raises(Refused):
            seen.take(bad)


def test_a_watermark_is_a_share_that_the_engine_keeps_in_blocks() -> None:
    put, of = changes(), scheduler()
    seen = knob("admission_watermark", of, put)
    seen.write(seen.take(0.11))
    put.apply(of)
    assert (of.kv_cache_manager.watermark_blocks, seen.shown(seen.read())) == (7, 7 / 64)


def test_a_value_is_read_at_once_and_taken_by_the_next_step() -> None:
    put, of = changes(), scheduler()
    seen = knob("sequence_cap", of, put)
    seen.write(4)
    seen.write(6)
    assert (seen.read(), of.max_num_active_reqs, put.in_force()["in_force"]) == (6, 16, False)
    put._steps.due.apply(of)
    assert (seen.read(), of.max_num_active_reqs, put._steps.due) == (6, 6, None)
    assert put.in_force() == {"in_force": True, "from_step": 42, "fault": ""}


def test_no_value_is_lost_between_two_threads() -> None:
    put, of = changes(), scheduler()
    seen, ended = knob("scheduled_token_budget", of, put), threading.Event()

    def steps() -> None:
        while not ended.is_set() or put._steps.due is not None:
            if put._steps.due is not None:
                put._steps.due.apply(of)

    engine = threading.Thread(target=steps)
    engine.start()
    for value in range(4, 2004):
        seen.write(value)
        assert seen.read() == value
    ended.set()
    engine.join()
    assert of.max_num_scheduled_tokens == 2003


def request(task: str | None, header: str | None = None) -> Any:
    extra = {"task": task} if task else {HEADER_TASK: header} if header else None
    return SimpleNamespace(spec_token_ids=[1, 2], sampling_params=SimpleNamespace(extra_args=extra))


def test_drafts_of_named_tasks_are_dropped_before_each_step() -> None:
    put, of = changes(), scheduler()
    placeholders = [-1, -1]
    of.running = [request("a"), request("b"), request(None), request(None, "a"), request("b", "a")]
    of.running[0].spec_token_ids = placeholders
    seen = knob("no_drafts_for_tasks", of, put)
    seen.write(seen.take(["a"]))
    for _ in range(2):
        put._steps.due.apply(of)
        assert [r.spec_token_ids for r in of.running] == [[], [1, 2], [1, 2], [], [1, 2]]
        of.running[3].spec_token_ids = [5]
    assert placeholders == [-1, -1]
    seen.write(seen.take([]))
    put._steps.due.apply(of)
    assert (put._steps.due, of.running[3].spec_token_ids) == (None, [5])


def test_an_engine_that_differs_in_the_middle_ends_it_and_is_told() -> None:
    put = changes()
    put.put(put, "undrafted", frozenset({"a"}))
    put.apply(SimpleNamespace(running=[SimpleNamespace(spec_token_ids=[1])]))
    assert (put._steps.due is None or put.undrafted == frozenset(), "sampling_params" in put.fault) == (True, True)
