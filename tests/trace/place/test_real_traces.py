"""Steps, phases and layers of real traces, with the engine's ranges and without them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pellucid.trace.classify import classify
from pellucid.trace.place.phases import agree
from pellucid.trace.place.placed import Placed, place
from pellucid.trace.timeline import ANNOTATION, GPU_ANNOTATION, Timeline, taken
from pellucid.trace.torch_profiler.read import read
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

H200 = ("h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz",
        "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz")  # fmt: skip


@cache
def timeline(name: str) -> Timeline:
    return read(Path(shared_data(name)))


def placed(seen: Timeline) -> Placed:
    op = seen.kernels.op
    ops = [seen.names[seen.host.name[i]] if i >= 0 else None for i in op.tolist()]
    return place(seen, [classify(seen.names[n], o) for n, o in zip(seen.kernels.name.tolist(), ops, strict=True)])


def without_ranges(seen: Timeline) -> Timeline:
    """As if the engine had named nothing. Rows of host events move, so launches and operators are found again."""
    kept = np.flatnonzero(~np.isin(seen.host.kind, (ANNOTATION, GPU_ANNOTATION)))
    moved = np.full(len(seen.host) + 1, -1)
    moved[kept] = np.arange(len(kept))
    kernels = replace(seen.kernels, launch=moved[seen.kernels.launch], op=moved[seen.kernels.op])
    return replace(seen, kernels=kernels, host=taken(seen.host, kept))


def phase_of(found: Placed) -> list[str | None]:
    return [found.steps[i].phase if i >= 0 else None for i in found.step.tolist()]


def test_steps_of_the_second_trace_are_those_the_engine_named() -> None:
    found = placed(timeline(H200[0]))
    batches = [(s.prefill_requests, s.prefill_tokens, s.decode_requests) for s in found.steps if s.phase]
    assert batches[:5] == [(8, 8000, 0), (17, 16376, 8), (17, 16360, 24), (18, 16344, 40), (7, 6920, 57)]
    assert batches[5:] == [(0, 0, n) for n in (*[64] * 7, 56, 40, 24, 7)]
    assert [s.graph for s in found.steps if s.phase] == ["none"] * 5 + ["full"] * 11
    took = [timeline(H200[0]).kernels.duration_ns[rows].sum() / 1e6 for rows in found.rows[5:12]]
    assert 19.2 * 0.97 < np.mean(took) < 19.2 * 1.03       # the figure of docs: 19.2 ms of kernels a step


@pytest.mark.parametrize("name", H200)
def test_without_the_engines_ranges_phases_agree(name: str) -> None:
    """For 95 % of kernel time at least."""
    with_ranges, without = placed(timeline(name)), placed(without_ranges(timeline(name)))
    assert {s.phase_basis for s in without.steps} <= {"shapes", "kernels"}
    times = timeline(name).kernels.duration_ns.tolist()
    assert agree(phase_of(without), phase_of(with_ranges), times) >= 0.95


@pytest.mark.parametrize(("name", "layers"), [
    (H200[0], 48), (H200[1], 48),
    ("torch_traces/mi300_sglang_qwen3-8b_decode.json.gz", 36),
    ("torch_traces/mi300_vllm_decode_full_graph_execution.json.gz", 24),
    ("torch_traces/b200_eager.json.gz", 36),
    ("torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz", 24),
    ("torch_traces/mi300_qwen1.5-0.5b-chat_hf.json.gz", 24),
])  # fmt: skip
def test_layers_are_as_many_as_the_model_has(name: str, layers: int) -> None:
    found = placed(timeline(name))
    assert {int(found.layer[rows].max()) + 1 for rows in found.rows if len(rows)} == {layers}


@pytest.mark.parametrize(("name", "phase", "basis", "graph"), [
    ("torch_traces/mi300_sglang_qwen3-8b_decode.json.gz", "decode", "annotation", "full"),
    ("torch_traces/mi300_vllm_decode_full_graph_execution.json.gz", "decode", "kernels", "full"),
    ("torch_traces/b200_eager.json.gz", "prefill", "shapes", "none"),
    ("torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz", "prefill", "shapes", "none"),
    ("torch_traces/mi300_qwen1.5-0.5b-chat_hf.json.gz", "prefill", "shapes", "none"),
])  # fmt: skip
def test_phases_of_other_engines_and_devices(name: str, phase: str, basis: str, graph: str) -> None:
    assert [(s.phase, s.phase_basis, s.graph) for s in placed(timeline(name)).steps] == [(phase, basis, graph)]


@pytest.mark.parametrize("name", ["h100_nsfw-vit_hf", "h100_timesformer_hf", "rtx2080ti_linear_kineto"])
def test_what_is_no_language_model_has_no_steps(name: str) -> None:
    found = placed(timeline(f"torch_traces/{name}.json.gz"))
    assert (found.steps, set(found.step.tolist()), set(found.layer.tolist())) == ((), {-1}, {-1})
