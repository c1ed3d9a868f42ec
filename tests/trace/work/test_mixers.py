"""Kernels of latent and of linear attention: their work from the model's configuration and the batch of their step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.catalog.devices.gpus import device_of
from pellucid.physics.ceilings import measured_ceilings
from pellucid.physics.config.read import read
from pellucid.physics.formulae.attention import PLAIN, Heads, mla_decode, prefill
from pellucid.physics.formulae.linear import Part, convolution, recurrence
from pellucid.physics.geometry import Indexer, Linear, Mla
from pellucid.physics.roof import Efficiency, efficiency
from pellucid.physics.work import Work
from pellucid.trace.load import load
from pellucid.trace.rows.columns import Identity
from pellucid.trace.work.attention import LENGTHS, MIXED, PARTLY_CACHED, latent_attention
from pellucid.trace.work.batches import Batch
from pellucid.trace.work.linear import ANOTHER, BATCH, CHUNKS, linear
from pellucid.trace.work.model import Model, model_of_geometry
from pellucid.verbs.captures.batches import batches_of
from tests.golden.test_device import golden
from tests.physics.configs import DEEPSEEK_V3, QWEN3_NEXT
from tests.trace.torch_profiler.written import Event, call, kernel, text

V2_LITE = Mla(16, None, 512, 128, 64, 128)                          # config.json of DeepSeek-V2-Lite
NEXT = Linear("gated_delta", 16, 32, 128, 128, 4)                   # of Qwen3-Next-80B-A3B
MAMBA = Linear("mamba1", 1, 5120, 16, 1, 4)                         # of mamba-2.8b
DECODE = Batch(tokens=3, prefills=0, decodes=3, queries=(1, 1, 1), contexts=(700, 10, 4))
PROMPT = Batch(tokens=900, prefills=1, decodes=0, queries=(900,), contexts=(900,))


def test_a_decode_of_latent_attention_reads_the_latents_of_its_contexts_once() -> None:
    work = latent_attention(V2_LITE, DECODE, PLAIN)
    assert isinstance(work, Work)
    assert work.flop == 2 * 16 * 714 * (576 + 512)
    assert work.moved_bytes == 714 * 576 * 2 + 3 * 16 * (576 + 512) * 2
    drafts = latent_attention(V2_LITE, Batch(9, 0, 3, queries=(3, 3, 3), contexts=(700, 10, 4)), PLAIN)
    assert isinstance(drafts, Work) and drafts.flop == 3 * work.flop


def test_a_prompt_of_latent_attention_makes_its_keys_anew() -> None:
    found = latent_attention(V2_LITE, PROMPT, PLAIN)
    assert found == prefill(Heads(16, 16, 192, 128), 900, 900)


def test_sparse_attention_reads_no_more_than_it_picked() -> None:
    sparse = Mla(16, None, 512, 128, 64, 128, Indexer(64, 128, 100))
    found = latent_attention(sparse, DECODE, PLAIN)
    assert found == mla_decode(16, [100, 10, 4])


@pytest.mark.parametrize(("batch", "why"), [
    (Batch(10, 1, 3), MIXED), (Batch(900, 1, 0, queries=(900,), contexts=(1800,)), PARTLY_CACHED),
    (Batch(3, 0, 3), LENGTHS), (Batch(), LENGTHS), (Batch(4, 0, 3, queries=(1, 1, 2), contexts=(9, 9, 9)), LENGTHS),
])  # fmt: skip
def test_latent_attention_that_cannot_be_told_is_not_reckoned(batch: Batch, why: str) -> None:
    assert latent_attention(V2_LITE, batch, PLAIN) == why


def test_a_decode_of_a_delta_rule_moves_its_states_in_and_out() -> None:
    work = linear(NEXT, "gdn_decode", Batch(64, 0, 64))
    assert isinstance(work, Work)
    assert work.moved_bytes == 2 * 64 * (32 * 128 * 128) * 4 + 64 * (2 * 16 * 128 + 2 * 32 * 128) * 2
    assert work.flops == (("fp32", 64 * 7 * 32 * 128 * 128),)
    assert work == recurrence(NEXT, Part(64, 64))


def test_a_short_convolution_moves_each_channel_and_what_it_looks_back_at() -> None:
    work = linear(NEXT, "causal_conv1d", Batch(64, 0, 64))
    channels = 2 * 16 * 128 + 32 * 128
    assert work == convolution(NEXT, Part(64, 64))
    assert isinstance(work, Work)
    assert (work.moved_bytes, work.flop) == (2 * 64 * channels * (2 + 3 * 2), 2 * 64 * channels * 4)


def test_a_selective_scan_is_one_kernel_for_prompts_too() -> None:
    work = linear(MAMBA, "mamba1", PROMPT)
    assert isinstance(work, Work)
    assert work.moved_bytes == 2 * 5120 * 16 * 4 + 900 * (2 * 5120 + 2 * 16) * 2
    assert work.flop == 900 * 5 * 5120 * 16


@pytest.mark.parametrize(("model", "detail", "batch", "why"), [
    (NEXT, "gdn_prefill", PROMPT, CHUNKS), (NEXT, "gdn_decode", PROMPT, CHUNKS), (NEXT, "fla_chunk", PROMPT, CHUNKS),
    (NEXT, "gdn", Batch(64, 0, 64), ANOTHER), (MAMBA, "gdn_decode", Batch(64, 0, 64), ANOTHER),
    (NEXT, "gdn_decode", Batch(64), BATCH),
])  # fmt: skip
def test_linear_attention_that_cannot_be_told_is_not_reckoned(
    model: Linear, detail: str, batch: Batch, why: str
) -> None:
    assert linear(model, detail, batch) == why
    assert isinstance(linear(model, detail, Batch(9, 1, 8)), str)


def trace_of(names: list[tuple[str, float]], decodes: int) -> str:
    """One step of three layers; each kernel with its µs."""
    label: Event = {"ph": "X", "cat": "user_annotation", "ts": 0, "dur": 100, "pid": 90, "tid": 91,
                    "name": f"execute_context_0(0)_generation_{decodes}({decodes})"}  # fmt: skip
    events: list[Event | str] = [label]
    at = 200.0
    for n, (name, took) in enumerate(names * 3):
        events += [call(ts=1 + n, correlation=n), kernel(name, ts=at, dur=took, correlation=n)]
        at += took + 1
    return text(events)


def kernels_of(folder: Path, trace: str, model: Model) -> list[dict[str, Any]]:
    path = folder / "t.json"
    path.write_text(trace)
    found: list[dict[str, Any]] = load(path, Identity("c", "w"), model).tables["kernels"].to_pylist()
    return found


def test_kernels_of_linear_layers_have_roofs_in_a_trace(tmp_path: Path) -> None:
    layer = [("rms_norm_kernel", 5.0), ("_causal_conv1d_update_kernel", 10.0),
             ("fused_recurrent_gated_delta_rule_packed_decode_kernel", 100.0), ("nvjet_hsh_128x64", 20.0)]  # fmt: skip
    rows = kernels_of(tmp_path, trace_of(layer, 64), Model(linear=NEXT))
    told = {k["detail"]: k for k in rows if k["class"] == "ssm_linear_attn"}
    state = recurrence(NEXT, Part(64, 64))
    assert told["gdn_decode"]["moved_bytes"] == state.moved_bytes
    assert told["gdn_decode"]["roof_ns"] == round(state.moved_bytes / 4.22e12 * 1e9)
    assert (told["gdn_decode"]["bound"], told["gdn_decode"]["work_basis"]) == ("memory", "geometry")
    assert told["causal_conv1d"]["moved_bytes"] == convolution(NEXT, Part(64, 64)).moved_bytes


def test_a_state_that_moves_faster_than_the_device_can_is_no_roof(tmp_path: Path) -> None:
    layer = [("rms_norm_kernel", 5.0), ("fused_recurrent_gated_delta_rule_packed_decode_kernel", 50.0)]
    rows = kernels_of(tmp_path, trace_of(layer, 64), Model(linear=NEXT))
    fast = [k for k in rows if k["class"] == "ssm_linear_attn"]
    assert fast and {k["roof_ns"] for k in fast} == {None} and "times what" in fast[0]["work_note"]


@pytest.mark.slow
def test_latent_attention_of_a_recorded_engine_is_possible_and_near_its_roof() -> None:
    """Decodes of DeepSeek-V2-Lite shapes on an H200, device graphs: 64 requests of some 1,430 positions, then one."""
    run = golden("moe-uniform")
    device = device_of("NVIDIA H200")
    assert device is not None
    ceilings = measured_ceilings(device)
    steps = run.rows("SELECT capture, step FROM capture_steps WHERE phase = 'decode'")
    batches = batches_of(run, [s["step"] for s in steps])
    near: dict[int, list[float]] = {}
    for s in steps:
        work = latent_attention(V2_LITE, batches[s["step"]], PLAIN)
        took = run.rows("SELECT duration_ns AS ns FROM kernels WHERE capture = $capture AND step = $step AND detail = 'fa3'", s)  # noqa: E501
        assert isinstance(work, Work) and len(took) == 27
        for kernel_ns in took:
            found = efficiency(work, ceilings, kernel_ns["ns"])
            assert isinstance(found, Efficiency)
            near.setdefault(batches[s["step"]].decodes or 0, []).append(found.ratio)
    assert near.keys() == {1, 64}
    assert 0.55 < min(near[64]) < max(near[64]) < 0.75
    assert max(near[1]) < 0.03                  # a latency, not a load


def test_what_a_configuration_says_of_mixers_is_that_of_one_device() -> None:
    half = model_of_geometry(read(QWEN3_NEXT), 2)
    assert half.linear == Linear("gated_delta", 8, 16, 128, 128, 4) and half.heads == Heads(8, 1, 256, 256)
    v3 = model_of_geometry(read(DEEPSEEK_V3), 8)
    assert v3.latent == Mla(16, 1536, 512, 128, 64, 128) and v3.heads is None
