"""Recordings of other people: what we read is what a plain JSON parser with exact decimals reads."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.trace.timeline import KERNEL, KINDS, OP, RUNTIME, Device
from pellucid.trace.torch_profiler.read import read
from tests.conftest import shared_data

TRACES = ("torch_traces/b200_eager.json.gz", "torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz",
          "torch_traces/mi300_sglang_qwen3-8b_decode.json.gz",
          "torch_traces/mi300_vllm_decode_full_graph_execution.json.gz",
          "torch_traces/hta/ns_resolution_rank0.pt.trace.json.gz", "torch_traces/hta/alexnet_critical_path.json.gz",
          "torch_traces/hta/nccl_param_fields.json.gz", "torch_traces/rtx2080ti_linear_kineto.json.gz",
          "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz")  # fmt: skip
CATEGORIES = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_sync": "sync"}
H200 = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"


def plain(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    return [e for e in events if e.get("ph") == "X"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_execution_is_read_to_the_nanosecond(name: str) -> None:
    found = read(shared_data(name))
    k = found.kernels
    ours = sorted((found.names[n], KINDS[kind], start, duration, correlation) for n, kind, start, duration, correlation
                  in zip(k.name, k.kind, k.start_ns, k.duration_ns, k.correlation, strict=True))  # fmt: skip
    theirs = sorted((e["name"], CATEGORIES[e["cat"]], int(e["ts"] * 1000), int(e["dur"] * 1000),
                     e["args"]["correlation"]) for e in plain(shared_data(name)) if e["cat"] in CATEGORIES)  # fmt: skip
    assert ours == theirs
    assert found.about.damage == ()


def test_a_trace_with_graphs_is_linked_to_its_graph_launches() -> None:
    found = read(shared_data(H200))
    host, k = found.host, found.kernels
    assert (k.launch >= 0).all()
    names, counts = np.unique(host.name[k.launch[k.kind == KERNEL]], return_counts=True)
    calls = {found.names[n]: int(c) for n, c in zip(names, counts, strict=True)}
    assert calls["cudaGraphLaunch"] == 11 * 913     # decode steps and what a step runs
    assert set(host.kind[k.launch]) == {RUNTIME}


def test_the_operator_of_a_kernel_has_its_shapes() -> None:
    found = read(shared_data("h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz"))
    k, host = found.kernels, found.host
    gemms = [i for i in np.flatnonzero(k.op >= 0) if found.names[k.name[i]].startswith("nvjet")]
    ops = {found.names[host.name[k.op[i]]] for i in gemms}
    assert len(gemms) > 100 and ops == {"aten::mm"}
    assert set(host.kind[k.op[gemms]]) == {OP}
    shapes = {found.texts[host.shapes[k.op[i]]] for i in gemms}
    assert "[[16384, 2048], [2048, 5120], [16384, 5120]]" in shapes


def test_what_the_file_says_of_device_rank_and_clock() -> None:
    about = read(shared_data(H200)).about
    assert about.devices == (Device(0, "NVIDIA H200", "9.0", 132, 150109880320),)
    assert (about.rank, about.ranks_count, about.wall_zero_ns) == (0, 1, 1790857026000000000)
    assert (about.file, about.format) == ("qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz", "torch_profiler")


@pytest.mark.parametrize(("name", "rank", "ranks"), [
    ("hta/distributed_info_missing.json.gz", None, None), ("hta/rank_not_found.json.gz", None, None),
    ("hta/sampled_rank-1.json.gz", 1, 128), ("hta/cpu_only_rank34.pt.trace.json.gz", 34, 300),
    ("v100_dlrm_kineto.tar.gz", 2, 8),
])  # fmt: skip
def test_a_rank_that_is_not_told_is_none(name: str, rank: int | None, ranks: int | None) -> None:
    about = read(shared_data(f"torch_traces/{name}")).about
    assert (about.rank, about.ranks_count) == (rank, ranks)


def test_an_amd_device_has_no_compute_capability() -> None:
    devices = read(shared_data("torch_traces/mi300_sglang_qwen3-8b_decode.json.gz")).about.devices
    assert [(d.name, d.compute_capability, d.processors_count) for d in devices] == [("AMD Instinct MI300X", None, 304)]


def test_kernels_of_a_hip_graph_share_a_launch() -> None:
    found = read(shared_data("torch_traces/mi300_sglang_qwen3-8b_decode.json.gz"))
    launch, counts = np.unique(found.kernels.launch, return_counts=True)
    assert found.names[found.host.name[launch[counts.argmax()]]] == "hipGraphLaunch"
    assert counts.max() == 544


def test_what_a_collective_moves_is_kept() -> None:
    found = read(shared_data("torch_traces/hta/nccl_param_fields.json.gz"))
    told = {found.texts[i] for i in found.kernels.collective if i >= 0}
    assert all(json.loads(t).keys() == {"name", "in_elements", "out_elements", "type", "ranks"} for t in told)
    assert "allreduce" in {json.loads(t)["name"] for t in told}


def test_times_since_1970_have_zero_as_their_wall_time() -> None:
    assert read(shared_data("torch_traces/rtx2080ti_linear_kineto.json.gz")).about.wall_zero_ns == 0
