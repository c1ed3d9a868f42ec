"""The effective configuration, from something shaped like the engine's, and from the few variables we know."""

from __future__ import annotations

import json
from types import SimpleNamespace

from pellucid_probe.vllm.config import VARIABLES, architecture, effective, kv_cache_bytes, kv_context_blocks

from pellucid.catalog.load import knobs


def test_the_variables_are_those_that_the_knobs_name() -> None:
    named = {s.env for knob in knobs().values() for s in knob.spellings if s.engine == "vllm" and s.env}
    assert set(VARIABLES) == named


def test_of_the_environment_only_these_are_recorded_and_one_that_is_not_set_is_null() -> None:
    environ = {"VLLM_CPU_NUM_OF_RESERVED_CPU": "1", "VLLM_API_KEY": "secret", "HOME": "/home/ada"}
    found = effective(SimpleNamespace(), environ)
    assert found == {"env.VLLM_CPU_NUM_OF_RESERVED_CPU": 1, "env.VLLM_CPU_KVCACHE_SPACE": None}


def test_a_variable_that_is_no_whole_number_stays_as_it_is() -> None:
    for text in ("0.5", "auto", "", "-1", "²"):
        assert effective(SimpleNamespace(), {"VLLM_CPU_KVCACHE_SPACE": text})["env.VLLM_CPU_KVCACHE_SPACE"] == text


def test_what_a_version_does_not_have_is_left_out() -> None:
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=16, policy=SimpleNamespace(name="FCFS")))
    found = effective(config, {})
    assert {k: v for k, v in found.items() if not k.startswith("env.")} == {
        "max_num_seqs": 16, "scheduling_policy": "FCFS"}  # fmt: skip


def test_the_kv_cache_is_its_blocks_times_the_largest_group_of_layers() -> None:
    page = SimpleNamespace(page_size_bytes=10)
    groups = [SimpleNamespace(layer_names=names, kv_cache_spec=page) for names in ("ab", "abc")]
    of_all = SimpleNamespace(layer_names="abcd", kv_cache_spec=SimpleNamespace(page_size_bytes=25, kv_cache_specs={}))
    for known, bytes_ in ((groups, 3000), ([*groups[:1], of_all], 2500)):
        config = SimpleNamespace(num_blocks=100, kv_cache_groups=known)
        assert kv_cache_bytes(SimpleNamespace(kv_cache_config=config)) == bytes_


def test_a_kv_cache_that_is_described_otherwise_has_no_known_size() -> None:
    for config in (None, *(SimpleNamespace(num_blocks=n, kv_cache_groups=[]) for n in (None, 1))):
        assert kv_cache_bytes(SimpleNamespace(kv_cache_config=config)) is None


def test_a_context_needs_blocks_of_every_group() -> None:
    """2,050 tokens are 17 blocks of 128, and 129 of 16."""
    groups = [SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=size)) for size in (128, 128, 16)]
    limit = SimpleNamespace(model_config=SimpleNamespace(max_model_len=2050))
    scheduler = SimpleNamespace(vllm_config=limit, kv_cache_config=SimpleNamespace(kv_cache_groups=groups))
    assert kv_context_blocks(scheduler) == 1 + 17 + 17 + 129
    assert kv_context_blocks(SimpleNamespace(vllm_config=limit, kv_cache_config=None)) is None


def test_the_architecture_has_sizes_and_no_paths_or_token_ids() -> None:
    kept = {"model_type": "qwen3", "hidden_size": 1024, "rope_scaling": {"type": "yarn"}, "dtype": "torch.bfloat16"}
    away = {"eos_token_id": 7, "_name_or_path": "/home/ada/model", "note": "x" * 65, "path": "a/b", "none": None}
    given = {**kept, **away, "dtype": Dtype()}
    assert json.loads(architecture(_with_model(given)) or "") == kept


def test_an_architecture_that_does_not_show_or_is_too_large_is_none() -> None:
    assert architecture(object()) is None
    assert architecture(_with_model({"layers": list(range(4000))})) is None


class Dtype:
    def __str__(self) -> str:
        return "torch.bfloat16"


def _with_model(given: dict[str, object]) -> object:
    return SimpleNamespace(model_config=SimpleNamespace(hf_config=SimpleNamespace(to_dict=lambda: given)))
