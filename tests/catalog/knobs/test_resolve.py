from __future__ import annotations

import pytest

from pellucid.catalog.knobs.resolve import names, resolve
from pellucid.catalog.load import knobs
from pellucid.core.errors import AskedWrongly


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
