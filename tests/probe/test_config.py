"""The effective configuration, from something shaped like the engine's, and from the few variables we know."""

from __future__ import annotations

from types import SimpleNamespace

from pellucid_probe.vllm.config import VARIABLES, effective

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
