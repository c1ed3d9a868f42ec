from __future__ import annotations

import pytest

from pellucid.catalog.knobs.spelling import Engine, Plain
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.sim.engine.settings import Settings
from pellucid.tune.space import Candidate, Setting
from pellucid.verbs.predict.settings import changed, groups_count, present

CONFIG: dict[str, Plain] = {
    "max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_num_scheduled_tokens": None, "num_gpu_blocks": 2730,
    "block_size": 128, "max_model_len": 2048, "enable_prefix_caching": True, "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0, "scheduling_policy": "fcfs", "watermark": 0.0, "kv_context_blocks": 97,
    "data_parallel_size": 1, "device": "cpu",
}  # fmt: skip


def engine(**more: Plain) -> Engine:
    return Engine("vllm", "0.32.0", {**CONFIG, **more})


def test_a_recorded_configuration_is_a_schedules_settings() -> None:
    # 97 blocks of the longest request: six groups of 16, and the one for padding. 2729 // 6 of each.
    assert present(engine()) == Settings(16, 2048, 454, 128, 2048)
    assert present(engine(kv_context_blocks=17)).kv_blocks_count == 2729
    assert present(engine(kv_context_blocks=None)).kv_blocks_count == 2729
    assert present(engine(max_num_scheduled_tokens=512)).token_budget_tokens == 512
    assert present(engine(enable_prefix_caching=False)).prefix_caching is False


@pytest.mark.parametrize(
    ("more", "says"),
    [({"num_gpu_blocks": None}, "num_gpu_blocks"),
     ({"max_num_seqs": 0, "block_size": None}, "max_num_seqs, block_size"),
     ({"scheduling_policy": "priority"}, "priority"), ({"data_parallel_size": 2}, "data-parallel"),
     ({"num_speculative_tokens": 3}, "speculation")],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(more: dict[str, Plain], says: str) -> None:
    with pytest.raises(CannotAnswer, match=says):
        present(engine(**more))


@pytest.mark.parametrize(("version", "alone"), [("0.28.0", True), ("0.32.0", False), ("0.33.1", False), ("odd", True)])
def test_older_versions_cut_a_prompt_that_is_alone(version: str, alone: bool) -> None:
    assert present(Engine("vllm", version, CONFIG)).long_prefill_alone is alone


def test_a_run_without_padding_or_length_has_one_group() -> None:
    assert groups_count(Engine("vllm", "0.32.0", {})) == 1


@pytest.mark.parametrize(
    ("knob", "value", "field"),
    [("max_running_requests", 64, "sequence_cap_count"), ("sequence_cap", 8, "sequence_cap_count"),
     ("step_token_budget", 512, "token_budget_tokens"), ("scheduled_token_budget", 256, "token_budget_tokens"),
     ("long_prefill_threshold", 100, "long_prefill_tokens"), ("kv_cache_memory", 500, "kv_blocks_count"),
     ("prefix_caching", False, "prefix_caching"), ("reserve_full_prompt", False, "whole_prompt_must_fit"),
     ("admission_watermark", 0.05, "watermark_ratio")],
)  # fmt: skip
def test_a_setting_changes_its_field_and_no_other(knob: str, value: int | float | bool, field: str) -> None:
    before = present(engine(kv_context_blocks=17))
    after = changed(before, (Setting(knob, value),))
    differing = [f for f in Settings.__dataclass_fields__ if getattr(before, f) != getattr(after, f)]
    assert differing == [field]
    assert getattr(after, field) == value


@pytest.mark.parametrize("knob", ["weights_fp8", "tensor_parallel_size", "speculative_tokens"])
def test_a_knob_that_changes_the_step_itself_is_refused(knob: str) -> None:
    wish: Candidate = (Setting(knob, 1),)
    with pytest.raises(CannotAnswer, match=f"^{knob}: .* Try: pellucid try"):
        changed(present(engine()), wish)


def test_a_value_under_which_nothing_runs_is_refused() -> None:
    with pytest.raises(AskedWrongly, match="sequence_cap_count = 0"):
        changed(present(engine()), (Setting("max_running_requests", 0),))
