"""Rules about how near kernels are to their roofs: rows on which each finds something, and what crosses a limit."""

from __future__ import annotations

from typing import Any

from pellucid.diagnose.rule import Verdict
from tests.diagnose import test_limits

FOUND: dict[str, dict[str, Any]] = {
    "kernel.bytes_at_roof": {
        "phase": "decode", "class": "moe_gemm", "batch_count": 64, "steps_count": 5, "class_ns": 250, "phase_ns": 1000,
        "kernels_ns": 900,
        "roof_ns": 170, "roofed_ns": 200, "memory_roof_ns": 170, "moved_bytes": 400e3, "precision": "bf16",
    },
    "kernel.attention_behind_its_gpu": {
        "phase": "prefill", "detail": "fa2", "device_name": "NVIDIA H200", "compute_capability": "9.0",
        "attention_ns": 100, "phase_ns": 1000, "near_ratio": 0.2, "times_ratio": 1.94, "gain_ratio": 0.48,
    },
    "kernel.moe_untuned": {
        "phase": "decode", "experts_ns": 500, "phase_ns": 1000, "roof_ns": 425, "roofed_ns": 1000, "reach_ratio": 0.85,
        "step_tokens": 64.0, "lines_count": 10, "tuned_count": 0, "default_count": 1, "tuned_file": "",
        "default_file": "x.json",
    },
    "config.precision_unused": {
        "phase": "prefill", "precision": "bf16", "device_name": "NVIDIA H200", "narrower": "fp8", "basis": "measured",
        "products_ns": 500, "compute_ns": 100, "phase_ns": 1000, "times_ratio": 2.0,
    },
    "kernel.gemm_far_from_roof": {
        "phase": "prefill", "basis": "measured", "kernels_count": 10, "gemm_ns": 1000e3, "known_ns": 1000e3,
        "roof_ns": 500e3, "late_ns": 100e3, "phase_ns": 2000e3,
    },
}  # fmt: skip

ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    ("kernel.bytes_at_roof", {}, "found"),
    ("kernel.bytes_at_roof", {"roof_ns": 169, "memory_roof_ns": 169}, "clear"),
    ("kernel.bytes_at_roof", {"phase_ns": 1001}, "clear"),
    ("kernel.bytes_at_roof", {"steps_count": 4}, "not_applicable"),
    ("kernel.bytes_at_roof", {"roofed_ns": 125, "roof_ns": 125}, "found"),
    ("kernel.bytes_at_roof", {"roofed_ns": 124, "roof_ns": 124}, "not_applicable"),
    ("kernel.bytes_at_roof", {"memory_roof_ns": 85}, "found"),
    ("kernel.bytes_at_roof", {"memory_roof_ns": 84}, "not_applicable"),
    ("kernel.bytes_at_roof", {"precision": "int4"}, "clear"),
    ("kernel.bytes_at_roof", {"batch_count": None}, "found"),
    ("kernel.attention_behind_its_gpu", {"attention_ns": 1000, "gain_ratio": 0.02}, "found"),
    ("kernel.attention_behind_its_gpu", {"attention_ns": 1000, "gain_ratio": 0.0199}, "clear"),
    ("kernel.attention_behind_its_gpu", {"attention_ns": None}, "not_applicable"),
    ("kernel.attention_behind_its_gpu", {"compute_capability": None}, "not_applicable"),
    ("kernel.attention_behind_its_gpu", {"compute_capability": None, "device_name": None}, "blind"),
    ("kernel.attention_behind_its_gpu", {"compute_capability": "12.1"}, "not_applicable"),
    ("kernel.attention_behind_its_gpu", {"times_ratio": None, "gain_ratio": None}, "not_applicable"),
    ("kernel.attention_behind_its_gpu", {"detail": "fa3", "times_ratio": 1.0, "gain_ratio": 0}, "clear"),
    ("kernel.moe_untuned", {}, "found"),
    ("kernel.moe_untuned", {"roof_ns": 830}, "clear"),
    ("kernel.moe_untuned", {"experts_ns": 40}, "found"),
    ("kernel.moe_untuned", {"experts_ns": 39}, "clear"),
    ("kernel.moe_untuned", {"experts_ns": None}, "not_applicable"),
    ("kernel.moe_untuned", {"roof_ns": None}, "not_applicable"),
    ("kernel.moe_untuned", {"lines_count": 0}, "blind"),
    ("kernel.moe_untuned", {"default_count": 0}, "not_applicable"),
    ("kernel.moe_untuned", {"default_count": 0, "tuned_count": 1}, "clear"),
    ("config.precision_unused", {}, "found"),
    ("config.precision_unused", {"compute_ns": 99}, "clear"),
    ("config.precision_unused", {"times_ratio": None, "narrower": None}, "clear"),
    ("config.precision_unused", {"products_ns": None}, "not_applicable"),
    ("config.precision_unused", {"compute_ns": None}, "not_applicable"),
    ("config.precision_unused", {"device_name": None}, "blind"),
    ("kernel.gemm_far_from_roof", {}, "found"),
    ("kernel.gemm_far_from_roof", {"late_ns": 99e3}, "clear"),
    ("kernel.gemm_far_from_roof", {"known_ns": 500e3}, "found"),
    ("kernel.gemm_far_from_roof", {"known_ns": 499e3}, "not_applicable"),
    ("kernel.gemm_far_from_roof", {"known_ns": None}, "not_applicable"),
    ("kernel.gemm_far_from_roof", {"gemm_ns": None}, "not_applicable"),
]


def test_an_older_generation_gains_what_was_measured_and_in_a_decode_from_nothing_on() -> None:
    rule = "kernel.attention_behind_its_gpu"
    for phase, wanted in (("prefill", ("ttft_mean_ns", 0.1 * (1 - 1 / 1.18), "end_to_end")),
                          ("decode", ("itl_mean_ns", 0.0, "end_to_end")),
                          (None, ("e2e_mean_ns", 0.1 * (1 - 1 / 1.18), "local"))):  # fmt: skip
        verdict = judged(rule, phase=phase)
        assert verdict.gain is not None
        assert (verdict.gain.metric, verdict.gain.low_ratio, verdict.gain.scope) == wanted
        assert (verdict.gain.high_ratio, verdict.targets) == (0.048, {"flash_attention_version": 3.0})



def test_a_product_at_its_roof_is_told_from_one_too_small_to_come_near() -> None:
    rule = "kernel.gemm_far_from_roof"
    near, far = judged(rule, late_ns=0, roof_ns=850e3), judged(rule, late_ns=0, roof_ns=849e3)
    assert ("no nearer" in near.says, "no nearer" in far.says) == (False, True)
    assert "measured roof" in near.says
    assert "nobody measured" in judged(rule, late_ns=0, basis="peak").says


def test_products_gain_what_their_share_does_and_the_move_is_the_format() -> None:
    for narrower, knob in (("fp8", "weights_fp8"), ("bf16", "numbers_bf16")):
        verdict = judged("config.precision_unused", narrower=narrower)
        assert verdict.gain is not None
        assert (verdict.gain.low_ratio, verdict.gain.high_ratio, verdict.targets) == (0.0, 0.05, {knob: 1.0})


def judged(rule: str, **change: Any) -> Verdict:
    return test_limits.judged(rule, **change)
