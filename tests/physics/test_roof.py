from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid.catalog.devices.gpus import Device, device_of, devices
from pellucid.physics.ceilings import Ceilings, measured_ceilings, peak_ceilings, replaced
from pellucid.physics.formats import NVFP4
from pellucid.physics.formulae.matmul import gemm
from pellucid.physics.formulae.moe import Shape, experts, touched
from pellucid.physics.roof import Efficiency, Impossible, NoRoof, Roof, efficiency, main_precision, roof
from pellucid.physics.work import Work


def device(name: str) -> Device:
    found = device_of(name)
    assert found is not None
    return found


H200 = measured_ceilings(device("NVIDIA H200"))
PEAKS = peak_ceilings(device("NVIDIA H200"))


def of(work: Work, ceilings: Ceilings = H200) -> Roof:
    found = roof(work, ceilings)
    assert isinstance(found, Roof)
    return found


def test_measured_ceilings_replace_peaks_and_keep_them() -> None:
    assert (H200.bytes_per_s, H200.flop_per_s("bf16"), H200.flop_per_s("fp8")) == (4.22e12, 809e12, 1336e12)
    assert (H200.memory.peak_per_s, H200.flop_per_s("fp16"), H200.basis) == (4.8e12, 989.4e12, "mixed")
    assert (PEAKS.basis, PEAKS.bytes_per_s, PEAKS.flop_per_s("fp4")) == ("peak", 4.8e12, None)
    assert PEAKS.link is not None and (PEAKS.link.per_s, PEAKS.link.peak_per_s) == (450e9, 450e9)


def test_a_runs_own_measurement_counts() -> None:
    own = replaced(PEAKS, {"bf16": 700e12}, "this run", bytes_per_s=4.0e12, network_bytes_per_s=50e9)
    assert (own.flop_per_s("bf16"), own.bytes_per_s, own.memory.source) == (700e12, 4.0e12, "this run")
    assert own.network is not None and own.network.per_s == 50e9
    assert own.ridge_flop_per_byte("bf16") == 175
    assert own.ridge_flop_per_byte("fp4") is None


@pytest.mark.parametrize(("key", "ridge"), [
    ("a100_sxm_80", 153), ("h100_sxm", 295), ("h200", 206), ("b200", 292), ("gb200", 313), ("mi300x", 247),
    ("mi355x", 315),
])
def test_ridges_are_those_of_the_data_sheets(key: str, ridge: float) -> None:
    assert peak_ceilings(devices()[key]).ridge_flop_per_byte("bf16") == pytest.approx(ridge, rel=0.004)


def test_what_binds() -> None:
    large, small = gemm(8192, 8192, 8192), gemm(16, 8192, 8192)
    assert (of(large).binds, of(small).binds) == ("compute", "memory")
    assert of(large).time_ns == pytest.approx(1.0995e12 / 809e12 * 1e9, rel=1e-3)
    assert (of(small).basis, of(small, PEAKS).basis) == ("measured", "peak")
    assert of(Work.of("bf16", 1e9, 1e6, exp_count=1e9)).binds == "exponentials"
    assert of(Work(link_bytes=450e3)).time_ns == pytest.approx(1000)
    assert of(Work(link_bytes=450e3)).binds == "link"
    assert of(Work()).time_ns == 0


def test_precisions_share_the_time() -> None:
    both = of(Work.of("bf16", 809e9, 0) + Work.of("fp8", 1336e9, 0))
    assert both.compute_ns == pytest.approx(2e6)
    assert (main_precision(Work()), main_precision(Work.of("fp8", 1, 0))) == (None, "fp8")


def test_what_a_device_cannot_do_has_no_roof() -> None:
    found = roof(gemm(16, 64, 64, NVFP4), H200)
    assert isinstance(found, NoRoof) and "fp4" in found.reason
    assert isinstance(efficiency(gemm(16, 64, 64, NVFP4), H200, 1), NoRoof)
    assert isinstance(roof(gemm(16, 64, 64, NVFP4), peak_ceilings(devices()["b200"])), Roof)
    assert "network" in getattr(roof(Work(network_bytes=1), H200), "reason", "")
    assert "link" in getattr(roof(Work(link_bytes=1), replace(H200, link=None)), "reason", "")


# The guard: 4.22e12 was measured (1.03 times it is 4.3466e12), and 4.8e12 is the peak.
@pytest.mark.parametrize(("bytes_per_s", "ceilings", "kind"), [
    (4.0e12, H200, Efficiency), (4.34e12, H200, Efficiency), (4.35e12, H200, Impossible), (4.79e12, PEAKS, Efficiency),
    (4.81e12, PEAKS, Impossible),
])  # fmt: skip
def test_what_passes_a_ceiling_is_a_fault(bytes_per_s: float, ceilings: Ceilings, kind: type) -> None:
    found = efficiency(Work((), 1e9), ceilings, 1e9 / bytes_per_s * 1e9)
    assert isinstance(found, kind)
    if isinstance(found, Efficiency):
        assert found.ratio == pytest.approx(bytes_per_s / ceilings.bytes_per_s)


def test_a_measured_ceiling_near_the_peak_does_not_raise_the_limit_above_it() -> None:
    near = replaced(PEAKS, {}, "this run", bytes_per_s=4.75e12)
    found = efficiency(Work((), 1e9), near, 1e9 / 4.82e12 * 1e9)
    assert isinstance(found, Impossible) and "memory: 1.01 times" in found.reason


def test_the_part_that_does_not_bind_can_be_impossible_too() -> None:
    work = Work.of("bf16", 809e9, 1.0)
    assert isinstance(efficiency(work, H200, 0.99e6), Efficiency)
    found = efficiency(work, H200, 0.9e6)
    assert isinstance(found, Impossible) and found.reason.startswith("compute: 1.11 times what h200 can do")


def test_data_that_fit_the_l2_are_given_as_the_cause() -> None:
    small, large = (efficiency(Work((), size), H200, size / 9e12 * 1e9) for size in (30e6, 3e9))
    assert isinstance(small, Impossible) and "fit in the L2" in small.reason
    assert isinstance(large, Impossible) and "L2" not in large.reason


def test_a_duration_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="none"):
        efficiency(Work((), 1), H200, 0)


def test_doubt_about_a_cell_reaches_the_answer() -> None:
    b300 = peak_ceilings(devices()["b300"])
    narrow = of(gemm(16, 64, 64, NVFP4), b300)
    assert [d.split(":")[0] for d in narrow.disputed] == ["compute", "memory"]
    assert [d.split(":")[0] for d in of(gemm(16, 64, 64), b300).disputed] == ["memory"]
    assert any(d.startswith("fp4 flop/s: 13.1") for d in b300.disputed)
    assert of(gemm(16, 64, 64), peak_ceilings(devices()["h200"])).disputed == ()
    own = replaced(b300, {}, "this run", bytes_per_s=7e12)
    assert of(gemm(16, 64, 64), own).disputed == ()


def test_assumptions_reach_the_answer() -> None:
    assert "uniform" in of(experts(Shape(128, 8, 2048, 768), 64)).assumes[0]


# As measured on an H200 with E = 64, N = 1408, K = 2048, top 6, bf16, uniform routing: memory roof 262 µs at 64 tokens,
# 295 µs taken; compute roof 1,076 µs at 8,192. The memory roof is that of the touched experts' weights at a copy's
# 4.22e12; the compute roof is at 790e12, between the 785 and 809 that were measured.
def test_the_two_roofs_of_a_tuned_mixture_of_experts() -> None:
    shape = Shape(64, 6, 2048, 1408)
    weights = Work((), touched(64, 6, 64) * 3 * 2048 * 1408 * 2)
    assert of(weights).time_ns / 1e3 == pytest.approx(262, abs=0.5)
    assert of(experts(shape, 64)).memory_ns / 1e3 == pytest.approx(263.4, abs=0.1)    # with activations
    planned = replaced(H200, {"bf16": 790e12}, "the planning figure")
    assert of(experts(shape, 8192), planned).time_ns / 1e3 == pytest.approx(1076, abs=1)
    measured = efficiency(experts(shape, 64), H200, 295e3)
    assert isinstance(measured, Efficiency) and measured.ratio == pytest.approx(0.89, abs=0.005)
