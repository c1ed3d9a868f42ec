"""Roofs beside what an H200 really took: Qwen3-30B-A3B in bf16, uniform routing, kernels of a profiler's trace."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache

import pytest

from pellucid.catalog.devices.gpus import device_of
from pellucid.physics.ceilings import measured_ceilings
from pellucid.physics.config.read import read
from pellucid.physics.roof import Efficiency, efficiency
from pellucid.physics.step.batch import Batch, Chunk
from pellucid.physics.step.model import step_work
from pellucid.physics.step.part import StepPart, by_class
from pellucid.physics.step.roofs import StepRoof, step_roof
from tests.conftest import shared_data
from tests.physics.configs import QWEN3_30B

pytestmark = pytest.mark.slow

DEVICE = device_of("NVIDIA H200")
assert DEVICE is not None
CEILINGS = measured_ceilings(DEVICE)
DECODES = "execute_context_0(0)_generation_64(64)"        # seven steps of 64 decodes, contexts of 1,001 to 1,012
PREFILLS = "execute_context_8(8000)_generation_0(0)"      # eight prompts of 1,000 tokens
KERNELS = {"moe_gemm": "fused_moe_kernel", "activation": "act_and_mul", "attention": "cutlass::device_kernel<flash",
           "gemm": "nvjet"}  # fmt: skip


@cache
def kernel_ns(step: str) -> Counter[str]:
    """Mean time of a step's kernels by class; "all" for the sum."""
    path = shared_data("h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz")
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if "dur" in e]
    steps = [e for e in events if e.get("cat") == "gpu_user_annotation" and e["name"] == step]
    found: Counter[str] = Counter()
    for kernel in (e for e in events if e.get("cat") == "kernel"):
        if any(s["ts"] <= kernel["ts"] < s["ts"] + s["dur"] for s in steps):
            kind = next((c for c, word in KERNELS.items() if word in kernel["name"]), "other")
            found.update({kind: kernel["dur"] * 1000, "all": kernel["dur"] * 1000})
    return Counter({kind: round(ns / len(steps)) for kind, ns in found.items()})


def parts(step: str) -> tuple[StepPart, ...]:
    batch = Batch(decodes=(1006,) * 64) if step == DECODES else Batch(prefills=(Chunk(1000, 1000),) * 8)
    return step_work(read(QWEN3_30B), batch)


@pytest.mark.parametrize(("step", "kind", "ratio"), [
    (DECODES, "moe_gemm", 0.97), (DECODES, "attention", 0.65), (PREFILLS, "moe_gemm", 0.62),
    (PREFILLS, "gemm", 0.91), (PREFILLS, "activation", 1.005), (PREFILLS, "attention", 0.46),
])  # fmt: skip
def test_how_near_its_roof_each_class_came(step: str, kind: str, ratio: float) -> None:
    found = efficiency(by_class(parts(step))[kind], CEILINGS, kernel_ns(step)[kind])
    assert isinstance(found, Efficiency)
    assert found.ratio == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(("step", "ratio"), [(DECODES, 0.82), (PREFILLS, 0.69)])
def test_a_step_takes_longer_than_its_roof(step: str, ratio: float) -> None:
    roof = step_roof(parts(step), CEILINGS)
    assert isinstance(roof, StepRoof)
    assert roof.time_ns / kernel_ns(step)["all"] == pytest.approx(ratio, abs=0.01)
