from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid.catalog.knobs.spelling import Engine
from pellucid.diagnose.rule import Move
from pellucid.diagnose.spell import SpelledMove, shown, spell


def engine(**config: Any) -> Engine:
    return Engine("vllm", "0.32.0", config)


def spelled(knob: str, target: float, engine: Engine, scale: float | None = None) -> SpelledMove | None:
    return spell(Move(knob, "raise", "cost"), target, scale, engine)


def setting(knob: str, target: float, engine: Engine, scale: float | None = None) -> str | None:
    move = spelled(knob, target, engine, scale)
    return None if move is None else move.setting


def test_a_number_becomes_the_exact_flag_with_its_present_value() -> None:
    move = spelled("max_running_requests", 32, engine(max_num_seqs=16))
    assert move is not None
    assert (move.setting, move.current, move.change) == ("--max-num-seqs 32", 16, "restart")


def test_what_the_engine_has_already_is_no_move() -> None:
    assert spelled("max_running_requests", 32, engine(max_num_seqs=32)) is None


def test_a_target_outside_of_the_knobs_range_is_cut() -> None:
    assert setting("max_running_requests", 10**6, engine()) == "--max-num-seqs 4096"


def test_kv_memory_on_a_cpu_is_gib_in_the_environment() -> None:
    config = engine(device="cpu", kv_cache_memory_bytes=2**30)
    assert setting("kv_cache_memory", 150, config, 1.5) == "VLLM_CPU_KVCACHE_SPACE=2"


def test_kv_memory_whose_present_size_is_not_known_is_said_as_a_factor() -> None:
    said = setting("kv_cache_memory", 150, engine(device="cpu"), 1.5)
    assert said == "VLLM_CPU_KVCACHE_SPACE: 1.50 times its present value"


def test_kv_blocks_set_by_hand_are_changed_by_hand() -> None:
    config = engine(device="cpu", num_gpu_blocks_override=100)
    assert setting("kv_cache_memory", 150, config, 1.5) == "--num-gpu-blocks-override 150"


def test_kv_memory_on_a_gpu_is_a_ceiling_not_a_computed_value() -> None:
    low, high = (engine(device="cuda", gpu_memory_utilization=u) for u in (0.9, 0.95))
    assert setting("kv_cache_memory", 150, low, 1.5) == "--gpu-memory-utilization 0.95"
    assert spelled("kv_cache_memory", 150, high, 1.5) is None


def test_kv_bytes_on_a_gpu_are_scaled() -> None:
    config = engine(device="cuda", kv_cache_memory_bytes=1000)
    assert setting("kv_cache_memory", 150, config, 1.5) == "--kv-cache-memory-bytes 1500"


def test_a_switch_is_turned_on_where_it_is_off_and_the_device_allows_it() -> None:
    assert setting("async_scheduling", 1, engine(device="cuda", async_scheduling=False)) == "--async-scheduling"
    assert spelled("async_scheduling", 1, engine(device="cuda", async_scheduling=True)) is None
    assert spelled("async_scheduling", 1, engine(device="cpu", async_scheduling=False)) is None


def test_an_engine_the_catalog_does_not_know_gets_the_knob_without_a_spelling() -> None:
    move = spelled("max_running_requests", 32, Engine("other", "1", {}))
    assert move is not None
    assert (move.setting, move.target, move.current) == ("", 32, None)


def test_bytes_are_shown_as_a_size() -> None:
    move = spelled("kv_cache_memory", 150, engine(device="cpu", kv_cache_memory_bytes=2**30), 1.5)
    assert move is not None
    assert shown(move, {}) == "1.0 GiB"


RESERVED = "env.VLLM_CPU_NUM_OF_RESERVED_CPU"


@pytest.mark.parametrize(
    ("recorded", "text"), [({RESERVED: 1}, "1"), ({RESERVED: None}, "not set"), ({}, "not known")]
)
def test_a_variable_that_is_not_set_is_told_from_one_nobody_looked_at(recorded: dict[str, Any], text: str) -> None:
    move = spelled("reserved_cpu_cores", 2, engine(device="cpu", **recorded))
    assert move is not None
    assert (move.setting, shown(move, recorded)) == ("VLLM_CPU_NUM_OF_RESERVED_CPU=2", text)


def test_a_variable_that_has_the_target_already_is_no_move() -> None:
    assert spelled("reserved_cpu_cores", 2, engine(device="cpu", **{RESERVED: 2})) is None


DRAFTS = {"speculative_method": "ngram", "speculative_model": "ngram", "num_speculative_tokens": 6,
          "prompt_lookup_max": 3, "prompt_lookup_min": 3}  # fmt: skip


def test_an_object_is_spelled_whole_with_what_stays() -> None:
    said = setting("speculative_tokens", 2, engine(**DRAFTS | {"prompt_lookup_min": 1}))
    wanted = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    assert said == f"--speculative-config '{json.dumps(wanted)}'"


def test_numbers_that_are_the_same_stay_and_what_is_not_there_is_left_out() -> None:
    config = engine(speculative_method="eagle3", speculative_model="head", num_speculative_tokens=4)
    wanted = {"method": "eagle3", "model": "head", "num_speculative_tokens": 3}
    assert setting("speculative_tokens", 3, config) == f"--speculative-config '{json.dumps(wanted)}'"
    same = setting("speculative_tokens", 3, engine(**DRAFTS))
    assert same is not None
    assert same.count(": 3") == 3


def test_a_depth_the_engine_has_already_and_one_without_speculation_are_no_move() -> None:
    assert spelled("speculative_tokens", 6, engine(**DRAFTS)) is None
    assert spelled("speculative_tokens", 6, engine()) is None


def test_what_is_taken_away_is_a_flag_less() -> None:
    assert setting("speculation", 0, engine(**DRAFTS)) == "without --speculative-config"
    assert spelled("speculation", 0, engine(speculative_method=None)) is None


def test_an_offload_tier_is_gib_of_the_kv_cache_that_it_helps() -> None:
    """30 blocks more than 100 of 10 GiB."""
    known = engine(device="cuda", kv_cache_bytes=10 * 2**30)
    assert setting("kv_offload_memory", 30, known, 0.3) == "--kv-offloading-size 3"
    said = setting("kv_offload_memory", 30, engine(device="cuda"), 0.3)
    assert said == "--kv-offloading-size: 0.30 times the size of the KV cache"
    assert spelled("kv_offload_memory", 30, engine(device="cpu"), 0.3) is None


def test_a_smaller_kv_cache_on_a_gpu_is_exact_bytes_of_what_was_allocated() -> None:
    config = engine(device="cuda", kv_cache_memory_bytes=None, kv_cache_bytes=1000)
    assert setting("kv_cache_limit", 20, config, 0.2) == "--kv-cache-memory-bytes 200"


def test_what_callers_change_is_said_in_words() -> None:
    said = setting("cache_salt_per_tenant", 1, engine())
    assert said == 'request body: the same "cache_salt" for all requests of a tenant'
