"""Operators in the place of kernels: own times add up to the time of the outermost ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pellucid.trace.host_ops import own_ns, with_host_kernels
from pellucid.trace.load import label
from pellucid.trace.timeline import OP, RUNTIME, About, Device, Timeline, host_of, kernels_of


def timeline(*ops: tuple[int, int, int, int]) -> Timeline:
    """Kind, start, duration, thread."""
    rows = np.array(ops, np.int64).reshape(-1, 4)
    nothing = np.zeros(0, np.int64)
    return Timeline(
        About("torch_profiler", "x", 0),
        kernels_of({"name": nothing, "kind": nothing, "start_ns": nothing, "duration_ns": nothing}),
        host_of({"name": np.arange(len(rows)), "kind": rows[:, 0], "start_ns": rows[:, 1], "duration_ns": rows[:, 2],
                 "thread": rows[:, 3]}),
        tuple(f"op{n}" for n in range(len(rows))), (), (), (),
    )  # fmt: skip


def test_own_time_is_without_that_of_operators_within() -> None:
    seen = timeline((OP, 0, 100, 0), (OP, 10, 30, 0), (OP, 15, 5, 0), (OP, 50, 20, 0), (OP, 20, 60, 1))
    assert own_ns(seen.host, np.arange(5)).tolist() == [50, 25, 5, 20, 60]


def test_kernels_are_operators_with_time_of_their_own() -> None:
    found = with_host_kernels(timeline((OP, 0, 100, 0), (OP, 0, 100, 0)))
    assert [found.names[n] for n in found.kernels.name.tolist()] == ["op1"]
    assert (found.kernels.duration_ns.tolist(), found.kernels.device.tolist()) == ([100], [-1])


def test_without_operators_nothing_changes() -> None:
    seen = timeline()
    assert with_host_kernels(seen) is seen


def test_where_there_was_a_device_operators_are_no_kernels() -> None:
    """The trace may have been cut, and its kernels with it."""
    called = timeline((OP, 0, 100, 0), (RUNTIME, 5, 50, 0))
    described = timeline((OP, 0, 100, 0))
    described = replace(described, about=replace(described.about, devices=(Device(0, "x", None, None, None),)))
    assert [with_host_kernels(seen) is seen for seen in (called, described)] == [True, True]


TOLD = {"_C::onednn_mm": "gemm", "_C::fused_gumbel_argmax": "sampling", "_C::cpu_attention_with_kv_cache": "attention",
        "vllm::unified_attention_with_output": "attention", "aten::mm": "gemm", "aten::matmul": "gemm",
        "_C::rotary_embedding": "rope", "aten::slice": "unknown"}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_operators_are_told_by_their_own_names_but_no_kernel_of_a_library_is_claimed(name: str) -> None:
    seen = replace(with_host_kernels(timeline((OP, 0, 100, 0))), names=(name,))
    (found,) = label(seen)
    assert (found.category, found.detail, found.library) == (TOLD[name], "", "")
