"""Rules about what a device's time goes to: a row on which each finds something, and what moves it over a limit."""

from __future__ import annotations

from typing import Any

from pellucid.diagnose.rule import Gain, Verdict
from tests.diagnose import test_limits

FOUND: dict[str, dict[str, Any]] = {
    "kernel.launch_bound": {
        "phase": "decode", "kernels_count": 1000, "kernels_ns": 10e6, "span_ns": 40e6, "launch_ns": 20e6,
        "steps_ns": 40e6, "graph_steps_count": 0, "step_tokens": 1024, "graph_tokens": None,
    },
    "host.engine_core_behind": {
        "steps_count": 19, "span_ns": 10e6, "took_ns": 20e6, "busy_ns": 6e6, "own_ns": 5e6, "running_count": 640,
    },
    "kernel.elementwise_unfused": {
        "phase": "prefill", "kernels_count": 1000, "timed_count": 1000, "phase_ns": 100e6, "small_count": 800,
        "small_ns": 60e6, "following_ns": 40e6,
    },
    "kernel.sampling_heavy": {"steps_count": 3, "kernels_ns": 30e6, "sampling_ns": 6e6, "sort_ns": 3e6},
    "kernel.regressed": {
        "name": "fused_moe_kernel", "phase": "decode", "mean_ns": 400e3, "past_mean_ns": 100e3, "past_count": 3,
        "kernel_ns": 25e6, "phase_ns": 100e6, "middle_times_ratio": 1.0,
    },
    "config.eager_mode": {
        "steps_count": 4, "eager_steps_count": 4, "took_ns": 80e6, "launch_ns": 20e6, "asked_count": None,
    },
    "comm.share_high": {
        "phase": "decode", "basis": "step", "detail": "nccl_allreduce", "comm_ns": 40e6, "waited_ns": 10e6,
        "exposed_ns": 40e6, "whole_ns": 100e6, "ranks_count": None,
    },
}  # fmt: skip
ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    ("kernel.launch_bound", {"launch_ns": 10e6}, "found"),
    ("kernel.launch_bound", {"launch_ns": 9.9e6}, "clear"),
    ("kernel.launch_bound", {"steps_ns": 400e6}, "found"),
    ("kernel.launch_bound", {"steps_ns": 401e6}, "clear"),
    ("kernel.launch_bound", {"phase": None}, "not_applicable"),
    ("kernel.launch_bound", {"phase": None, "graph_steps_count": 1}, "clear"),
    ("host.engine_core_behind", {"busy_ns": 7.5e6}, "found"),
    ("host.engine_core_behind", {"busy_ns": 7.6e6}, "clear"),
    ("host.engine_core_behind", {"own_ns": 4e6}, "found"),
    ("host.engine_core_behind", {"own_ns": 3.9e6}, "clear"),
    ("host.engine_core_behind", {"steps_count": 5}, "found"),
    ("host.engine_core_behind", {"steps_count": 4}, "not_applicable"),
    ("host.engine_core_behind", {"took_ns": 11.1e6}, "found"),
    ("host.engine_core_behind", {"took_ns": 11e6}, "not_applicable"),
    ("kernel.elementwise_unfused", {"following_ns": 15e6}, "found"),
    ("kernel.elementwise_unfused", {"following_ns": 14.9e6}, "clear"),
    ("kernel.elementwise_unfused", {"phase": None}, "not_applicable"),
    ("kernel.sampling_heavy", {"sampling_ns": 3e6}, "found"),
    ("kernel.sampling_heavy", {"sampling_ns": 2.9e6}, "clear"),
    ("kernel.sampling_heavy", {"steps_count": 2}, "not_applicable"),
    ("kernel.regressed", {"mean_ns": 300e3}, "found"),
    ("kernel.regressed", {"mean_ns": 299e3}, "clear"),
    ("kernel.regressed", {"kernel_ns": 5e6}, "found"),
    ("kernel.regressed", {"kernel_ns": 4.9e6}, "clear"),
    ("kernel.regressed", {"name": None}, "not_applicable"),
    ("config.eager_mode", {"steps_count": 3, "eager_steps_count": 3}, "found"),
    ("config.eager_mode", {"steps_count": 2, "eager_steps_count": 2}, "not_applicable"),
    ("config.eager_mode", {"eager_steps_count": 2}, "found"),
    ("config.eager_mode", {"steps_count": 5, "eager_steps_count": 2}, "clear"),
    ("config.eager_mode", {"launch_ns": 8e6}, "found"),
    ("config.eager_mode", {"launch_ns": 7.9e6}, "clear"),
    ("comm.share_high", {"exposed_ns": 20e6}, "found"),
    ("comm.share_high", {"exposed_ns": 19.9e6}, "clear"),
    ("comm.share_high", {"phase": None}, "not_applicable"),
]  # fmt: skip


def judged(rule: str, **change: Any) -> Verdict:
    return test_limits.judged(rule, **change)


def gain(rule: str, **change: Any) -> Gain:
    claim = judged(rule, **change).gain
    assert claim is not None
    return claim


def test_graphs_are_a_move_only_where_there_are_none() -> None:
    assert judged("kernel.launch_bound").targets == {"device_graphs": 1}
    assert judged("kernel.launch_bound", graph_steps_count=1).targets == {}
    larger = judged("kernel.launch_bound", graph_steps_count=1, graph_tokens=1023)
    assert larger.targets == {"largest_device_graph": 1024}
    assert judged("kernel.launch_bound", graph_steps_count=1, graph_tokens=1024).targets == {}


def test_a_configuration_that_has_graphs_is_not_told_to_have_them() -> None:
    assert judged("config.eager_mode").targets == {"device_graphs": 1}
    assert judged("config.eager_mode", asked_count=1).targets == {"device_graphs": 1}
    assert judged("config.eager_mode", asked_count=0).targets == {}
    assert "does not ask for it" in judged("config.eager_mode", asked_count=0).says


def test_a_phase_decides_which_latency_gains() -> None:
    for rule in ("kernel.launch_bound", "kernel.elementwise_unfused", "kernel.regressed", "comm.share_high"):
        assert gain(rule, phase="prefill").metric == "ttft_mean_ns"
        assert gain(rule, phase="mixed").metric == "itl_mean_ns"
        assert gain(rule, phase="the capture").metric == "e2e_mean_ns"


def test_no_more_is_claimed_than_the_share_of_the_time() -> None:
    shares = {"kernel.launch_bound": 0.5, "host.engine_core_behind": 0.4, "kernel.elementwise_unfused": 0.4,
              "kernel.sampling_heavy": 0.2, "kernel.regressed": 0.1875, "config.eager_mode": 0.25,
              "comm.share_high": 0.4}  # fmt: skip
    assert {rule: gain(rule).high_ratio for rule in FOUND} == shares
    assert {gain(rule).low_ratio for rule in FOUND} == {0.0}


def test_waiting_for_peers_is_said_or_said_to_be_unknown() -> None:
    assert "at least 25% of it is waiting" in judged("comm.share_high").says
    assert "is not told" in judged("comm.share_high", waited_ns=None).says
    assert "over 8 ranks" in judged("comm.share_high", ranks_count=8).says
