from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.tune.space import (
    Setting,
    candidate,
    in_effect,
    merged,
    present_value,
    problems,
    read_setting,
    setting,
    words,
)

BLOCKS: dict[str, Any] = {"kv_cache_bytes": 2**30, "num_gpu_blocks": 1024, "kv_cache_memory_bytes": 2**30}
USUAL: dict[str, Any] = {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 2048,
                         "enable_chunked_prefill": True}  # fmt: skip


def engine(device: str = "cuda", version: str = "0.32.0", **config: Any) -> Engine:
    return Engine("vllm", version, {"device": device, **config})


RESERVED: dict[str, Any] = {"env.VLLM_CPU_NUM_OF_RESERVED_CPU": None}
CPU = engine("cpu", **BLOCKS, **USUAL, **RESERVED)
GPU = engine("cuda", **BLOCKS, **USUAL, enforce_eager=True, async_scheduling=False, quantization=None,
             gpu_memory_utilization=0.9)  # fmt: skip


@pytest.mark.parametrize(("text", "of", "knob", "value"), [
    ("max_running_requests=64", CPU, "max_running_requests", 64), ("max_num_seqs=64", CPU, "max_running_requests", 64),
    ("--max-num-seqs = 64", CPU, "max_running_requests", 64),
    ("VLLM_CPU_KVCACHE_SPACE=2", CPU, "kv_cache_memory", 2048), ("kv_cache_memory=2000", CPU, "kv_cache_memory", 2000),
    ("kv_cache_memory_bytes=1048577", GPU, "kv_cache_memory", 1),
    ("enforce_eager=true", GPU, "device_graphs", False), ("enforce-eager=off", GPU, "device_graphs", True),
    ("device_graphs=on", GPU, "device_graphs", True), ("async_scheduling=1", GPU, "async_scheduling", True),
    ("quantization=fp8", GPU, "weights_fp8", True), ("gpu_memory_utilization=0.8", GPU, "device_memory_share", 0.8),
])  # fmt: skip
def test_a_setting_is_read_by_our_name_and_by_the_engines(text: str, of: Engine, knob: str, value: Any) -> None:
    assert read_setting(text, of) == Setting(knob, value)


@pytest.mark.parametrize(("text", "says"), [
    ("max_num_seqs", "NAME=VALUE"), ("=4", "NAME=VALUE"), ("max_num_seqs=", "NAME=VALUE"),
    ("max_num_seq=64", "no knob of vllm 0.32.0. Known: .*max_running_requests"), ("max_num_seqs=many", "a number"),
    ("max_num_seqs=nan", "a number"), ("async_scheduling=perhaps", "true or false"), ("quantization=awq", "only fp8"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_with_what_would_be(text: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        read_setting(text, GPU)


def test_the_engines_unit_needs_the_size_of_a_block() -> None:
    with pytest.raises(CannotAnswer, match="how large a KV block is"):
        read_setting("VLLM_CPU_KVCACHE_SPACE=2", engine("cpu"))


def test_a_candidate_has_each_knob_once() -> None:
    one, other = Setting("step_token_budget", 64), Setting("max_running_requests", 4)
    assert words(candidate([one, other])) == "max_running_requests=4, step_token_budget=64"
    assert words(()) == "nothing changed"
    with pytest.raises(AskedWrongly, match="set twice"):
        candidate([one, Setting("step_token_budget", 32)])


def test_what_was_kept_stays_under_what_comes_next() -> None:
    kept = (Setting("max_running_requests", 4), Setting("step_token_budget", 64))
    assert merged(kept, (Setting("max_running_requests", 8),)) == (Setting("max_running_requests", 8), kept[1])


@pytest.mark.parametrize(("one", "of", "known"), [
    (Setting("max_running_requests", 16), CPU, True), (Setting("max_running_requests", 17), CPU, False),
    (Setting("device_graphs", False), GPU, True), (Setting("device_graphs", True), GPU, False),
    (Setting("weights_fp8", True), GPU, False), (Setting("async_scheduling", False), GPU, True),
    (Setting("kv_cache_memory", 1000), CPU, True), (Setting("kv_cache_memory", 1025), CPU, False),
    (Setting("reserved_cpu_cores", 1), CPU, None), (Setting("flash_attention_backend", True), GPU, None),
    (Setting("async_scheduling", True), CPU, None),
])  # fmt: skip
def test_what_the_engine_has_already_is_told_if_it_was_recorded(one: Setting, of: Engine, known: bool | None) -> None:
    assert in_effect(one, of) is known


def test_the_present_value_is_in_the_knobs_unit() -> None:
    assert (present_value("kv_cache_memory", CPU), present_value("kv_offload_memory", GPU)) == (1024, None)


@pytest.mark.parametrize(("knob", "value", "of", "says"), [
    ("colour", 1, CPU, "no knob of ours"), ("async_scheduling", True, CPU, "vllm 0.32.0 on cpu has no async"),
    ("flash_attention_version", 3, engine(version="0.12"), "has no flash"),
    ("variable_part_last", True, CPU, "what clients change"),
    ("max_running_requests", 0, CPU, "from 1 to 4096"), ("max_running_requests", 4097, CPU, "from 1 to 4096"),
    ("max_running_requests", 1.5, CPU, "a whole number"), ("max_running_requests", "many", CPU, "a number of requests"),
    ("max_running_requests", True, CPU, "a number of requests"), ("async_scheduling", 1, GPU, "true or false"),
    ("kv_cache_memory", 2000, engine("cpu"), "how large a KV block is"),
    ("max_running_requests", 2049, CPU, "step_token_budget is 2048 and max_running_requests 2049"),
    ("step_token_budget", 15, CPU, "step_token_budget is 15 and max_running_requests 16"),
    ("step_token_budget", 2047, engine(max_model_len=2048, enable_chunked_prefill=False), "chunked prefill is off"),
    ("long_prefill_threshold", 2049, CPU, "no prompt is longer than 2048"),
    ("kv_cache_memory", 96, engine("cpu", **BLOCKS, kv_context_blocks=97), "takes 97"),
    ("expert_balancing", True, engine(enable_expert_parallel=False), "not expert-parallel"),
    ("expert_copies", 8, engine(enable_eplb=False), "needs expert_balancing"),
    ("speculative_tokens", 8, engine(num_speculative_tokens=2, max_num_seqs=16, max_num_batched_tokens=100),
     "8 drafted"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_starts(knob: str, value: Any, of: Engine, says: str) -> None:
    (problem,) = problems((Setting(knob, value),), of)
    assert says in problem


@pytest.mark.parametrize(("knob", "value", "of"), [
    ("max_running_requests", 2048, CPU), ("step_token_budget", 16, CPU), ("long_prefill_threshold", 2048, CPU),
    ("step_token_budget", 2048, engine(max_model_len=2048, enable_chunked_prefill=False)),
    ("kv_cache_memory", 97, engine("cpu", **BLOCKS, kv_context_blocks=97)), ("max_running_requests", 64, engine()),
    ("expert_copies", 8, engine(enable_eplb=True)), ("device_memory_share", 0.5, GPU),
    ("speculative_tokens", 5, engine(num_speculative_tokens=2, max_num_seqs=16, max_num_batched_tokens=96)),
])  # fmt: skip
def test_what_is_just_within_is_no_problem(knob: str, value: Any, of: Engine) -> None:
    assert problems((Setting(knob, value),), of) == ()


def test_couplings_hold_for_the_settings_together() -> None:
    both = (Setting("max_running_requests", 64), Setting("step_token_budget", 32))
    assert len(problems(both, CPU)) == 1
    assert problems((both[0], Setting("step_token_budget", 64)), CPU) == ()
    off = (Setting("max_running_requests", 64), Setting("speculation", False))
    assert problems(off, engine(num_speculative_tokens=9, max_num_batched_tokens=64)) == ()


@given(st.integers(1, 40))
def test_whole_gib_stay_what_they_are_on_the_way_through_blocks(gib: int) -> None:
    odd = engine("cpu", kv_cache_bytes=1_073_479_680, num_gpu_blocks=2730, kv_cache_memory_bytes=gib * 2**30)
    assert in_effect(setting("VLLM_CPU_KVCACHE_SPACE", gib, odd), odd) is True
