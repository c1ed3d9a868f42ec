from __future__ import annotations

import pytest

from pellucid.catalog.load import knobs
from pellucid.catalog.resolve import Value, Where, Words, arguments, check_value, names, resolve
from pellucid.core.errors import AskedWrongly, CannotAnswer

CUDA, CPU, OLDER = Where("vllm", "0.32.0", "cuda"), Where("vllm", "0.32.0", "cpu"), Where("vllm", "0.28.0", "cpu")


@pytest.mark.parametrize(("name", "ours"), [
    ("max_running_requests", "max_running_requests"), ("max_num_seqs", "max_running_requests"),
    ("--max-num-seqs", "max_running_requests"), ("max-num-seqs", "max_running_requests"),
    ("--no-enable-prefix-caching", "prefix_caching"), ("kv_cache_dtype", "kv_cache_format"),
    ("quantization", "weight_format"), ("compilation_config.cudagraph_mode", "graph_mode"),
    ("num_gpu_blocks_override", "kv_cache_memory"), ("VLLM_CPU_NUM_OF_RESERVED_CPU", "reserved_cpu_cores"),
])  # fmt: skip
def test_a_knob_has_our_name_and_the_engines(name: str, ours: str) -> None:
    assert resolve(name, "vllm") == ours


@pytest.mark.parametrize(("name", "says"), [
    ("max_num_seq", "Did you mean max_num_seqs"), ("max_runing_requests", "Did you mean max_running_requests"),
    ("zzz", "Names are in docs/reference/knobs.md"), ("", "Names are in"),
    ("speculative_config", "Say which: speculation, speculative_tokens"),
])  # fmt: skip
def test_a_name_that_is_none_is_refused_with_what_was_meant(name: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        resolve(name, "vllm")


def test_an_engines_name_is_no_name_in_another() -> None:
    with pytest.raises(AskedWrongly, match="no knob is called 'max_num_seqs'"):
        resolve("max_num_seqs", "sglang")


def test_no_name_of_an_engine_is_ours_for_something_else() -> None:
    assert [n for n, ours in names("vllm").items() if n in knobs() and ours != [n]] == []


@pytest.mark.parametrize(("name", "value", "words"), [
    ("max_running_requests", 64, ("--max-num-seqs", "64")), ("prefix_caching", True, ("--enable-prefix-caching",)),
    ("prefix_caching", False, ("--no-enable-prefix-caching",)), ("kv_cache_fp8", True, ("--kv-cache-dtype", "fp8")),
    ("kv_cache_fp8", False, ()), ("device_graphs", False, ("--enforce-eager",)), ("device_graphs", True, ()),
    ("graph_mode", "FULL", ("--compilation-config.cudagraph_mode", "FULL")),
    ("device_memory_share", 0.9, ("--gpu-memory-utilization", "0.9")),
])  # fmt: skip
def test_a_setting_becomes_the_engines_words(name: str, value: Value, words: tuple[str, ...]) -> None:
    assert arguments(name, value, CUDA) == Words(words)


def test_a_setting_may_be_a_variable() -> None:
    assert arguments("reserved_cpu_cores", 1, CPU) == Words(environment={"VLLM_CPU_NUM_OF_RESERVED_CPU": "1"})


@pytest.mark.parametrize(("name", "value", "where", "says"), [
    ("kv_cache_fp8", True, CPU, "no spelling of it fits"), ("sequence_cap", 4, OLDER, "live setting of a running one"),
    ("no_drafts_for_tasks", 1, CUDA, "live setting of a running one"),
    ("speculation", False, CUDA, "made from what the engine has now"),
    ("cache_salt_per_tenant", True, CUDA, "request body"),
])  # fmt: skip
def test_what_an_engine_cannot_be_started_with_is_told(name: str, value: int | bool, where: Where, says: str) -> None:
    with pytest.raises(CannotAnswer, match=says):
        arguments(name, value, where)


@pytest.mark.parametrize(("name", "value", "says"), [
    ("max_running_requests", 0, "is 1 to 4096 requests"), ("max_running_requests", True, "is a number of requests"),
    ("max_running_requests", 4.5, "is a number of requests"), ("max_running_requests", "64", "is a number of requests"),
    ("prefix_caching", 1, "is true or false"), ("scheduling_policy", "lifo", "is one of fcfs, priority"),
    ("device_memory_share", 1.0, "is 0.1 to 0.98 ratio"), ("device_memory_share", float("nan"), "is 0.1 to 0.98"),
])  # fmt: skip
def test_a_value_out_of_the_catalogs_range_is_refused(name: str, value: int | float | str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        check_value(name, value)
