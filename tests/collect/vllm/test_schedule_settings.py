"""Settings of a schedule, in our names, in the engine's, and from a recording."""

from __future__ import annotations

import pytest

from pellucid.collect.vllm.schedule_settings import Settings, not_driven, settings_of, word
from pellucid.core.errors import CannotAnswer

CONFIG = {
    "max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 256, "num_gpu_blocks": 60, "block_size": 32,
    "enable_prefix_caching": True, "max_num_active_seqs": None, "watermark": 0.0, "scheduling_policy": "fcfs",
    "async_scheduling": False, "speculative_method": None, "pipeline_parallel_size": 1, "model": "elsewhere/model",
}  # fmt: skip


def test_settings_are_spelled_as_the_catalog_has_them() -> None:
    names = ("max_running_requests", "scheduling_policy", "sequence_cap", "reserve_full_prompt", "max_context_tokens")
    assert [word(name) for name in names] == [
        "max_num_seqs", "scheduling_policy", "max_num_active_seqs", "scheduler_reserve_full_isl", "max_model_len",
    ]  # fmt: skip
    told = Settings(2, 64, 128, 9, 16, prefix_caching=False, long_prefill_threshold=0, others={"watermark": 0.1}).told()
    assert {name: told[name] for name in list(told)[5:]} == {
        "enable_prefix_caching": False, "long_prefill_token_threshold": 0, "watermark": 0.1}  # fmt: skip


def test_a_recorded_configuration_is_taken_as_it_was() -> None:
    assert settings_of(CONFIG) == Settings(
        16, 2048, 256, 60, 32, prefix_caching=True, admission_watermark=0.0, scheduling_policy="fcfs")  # fmt: skip
    assert settings_of(CONFIG, "here").model == "here"


@pytest.mark.parametrize("name", ["max_num_seqs", "num_gpu_blocks"])
def test_what_a_recording_does_not_tell_is_not_guessed(name: str) -> None:
    with pytest.raises(CannotAnswer, match=f"has no {name}"):
        settings_of({**CONFIG, name: None})


@pytest.mark.parametrize(("change", "told"), [
    ({}, ()),
    ({"async_scheduling": True}, ("asynchronous scheduling: the end of a request is noticed a step later",)),
    ({"speculative_method": "ngram", "num_speculative_tokens": 2}, ("drafts by ngram",)),
    ({"pipeline_parallel_size": 2, "data_parallel_size": 4}, ("2 pipeline stages", "4 data-parallel engines")),
])  # fmt: skip
def test_what_is_not_driven_is_told(change: dict[str, object], told: tuple[str, ...]) -> None:
    assert not_driven({**CONFIG, **change}) == told
