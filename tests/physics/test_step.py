from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid.catalog.devices.gpus import device_of
from pellucid.core.errors import CannotAnswer
from pellucid.physics.cache import FP8_LATENT, CacheFormat, kv_bytes_per_token
from pellucid.physics.ceilings import measured_ceilings
from pellucid.physics.config.read import read
from pellucid.physics.formats import FP8
from pellucid.physics.parameters import weight_bytes
from pellucid.physics.roof import NoRoof
from pellucid.physics.step.batch import Batch, Chunk, Plan
from pellucid.physics.step.model import first_alike, layer_parts, step_work
from pellucid.physics.step.part import StepPart, by_class, merged, step_total
from pellucid.physics.step.roofs import StepRoof, step_roof
from pellucid.physics.work import Work
from tests.physics import configs

# Categories of the kernel classification.
CLASSES = {"gemm", "moe_gemm", "moe_routing", "attention", "norm", "rope", "activation", "kv_cache", "comm", "sampling",
           "embedding", "ssm_linear_attn", "quant"}  # fmt: skip
ALL = [name for name in vars(configs) if name.isupper() and "model_type" in getattr(configs, name)]
QWEN, LLAMA, DEEPSEEK = read(configs.QWEN3_30B), read(configs.LLAMA_8B), read(configs.DEEPSEEK_V3)
DECODE = Batch(decodes=(1000,) * 64)


def part(parts: tuple[StepPart, ...], name: str) -> StepPart:
    return next(p for p in parts if p.part == name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("batch", [DECODE, Batch(prefills=(Chunk(512, 2048),)), Batch((Chunk(8, 8),), (100,), 4)])
def test_every_model_has_a_step_in_known_classes(name: str, batch: Batch) -> None:
    parts = step_work(read(getattr(configs, name)), batch, Plan(tp=2))
    assert {p.kernel_class for p in parts} <= CLASSES
    assert [p for p in parts if p.calls_count < 1 or p.work.moved_bytes < 0] == []
    assert step_total(parts).flop > 0
    assert len({(p.part, p.kernel_class) for p in parts}) == len(parts)


def test_a_decode_of_64_touches_126_of_128_experts() -> None:
    """1.19 GB of weights a layer; measured on an H200: 14 ms for 48 layers, 0.96 of what a copy does."""
    found = part(step_work(QWEN, DECODE), "moe.experts")
    weights = 126 * 3 * 2048 * 768 * 2
    assert weights / 1e9 == pytest.approx(1.19, abs=0.002)
    assert (found.kernel_class, found.calls_count) == ("moe_gemm", 48)
    assert found.work.moved_bytes / 48 == pytest.approx(weights, rel=0.006)     # with activations
    assert 48 * weights / 14e-3 / 4.22e12 == pytest.approx(0.966, abs=0.001)
    assert found.work.assumes == ("routing is uniform: nobody counted the experts",)


def test_a_dense_decode_reads_its_weights_and_its_cache_once() -> None:
    moved = step_total(step_work(LLAMA, DECODE)).moved_bytes
    table = 128_256 * 4096 * 2
    least = weight_bytes(LLAMA) - table + 64 * 1000 * kv_bytes_per_token(LLAMA)
    assert moved > least
    assert moved == pytest.approx(least, rel=0.04)


def test_the_flop_of_a_step_are_those_of_its_tokens() -> None:
    found = by_class(step_work(LLAMA, DECODE))
    matrices = 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    assert found["gemm"].flop == 64 * 2 * matrices
    assert found["attention"].flop == 64 * 32 * 4 * 32 * 128 * 1000
    prefill = by_class(step_work(LLAMA, Batch(prefills=(Chunk(100, 100, sampled=False),))))
    assert prefill["gemm"].flop == 100 * 2 * (matrices - 128_256 * 4096)
    assert prefill["attention"].flop == 32 * 4 * 32 * 128 * 5050
    assert "sampling" not in prefill


def test_counted_experts_replace_the_assumption() -> None:
    counts = ((64,) * 8 + (0,) * 120,) * 48
    parts = step_work(QWEN, DECODE, Plan(tokens_by_expert=counts))
    found = part(parts, "moe.experts")
    assert (found.work.assumes, found.calls_count) == ((), 48)
    assert found.work.moved_bytes == 48 * (8 * 3 * 2048 * 768 * 2 + 512 * (2 * 2048 + 3 * 768) * 2)
    assert step_total(parts).flop == step_total(step_work(QWEN, DECODE)).flop
    with pytest.raises(CannotAnswer, match="47 layers, and 48"):
        step_work(QWEN, DECODE, Plan(tokens_by_expert=counts[1:]))


def test_layers_with_other_counts_are_other_work() -> None:
    counts = ((512, *(0,) * 127),) + ((4,) * 128,) * 47
    found = part(step_work(QWEN, DECODE, Plan(tokens_by_expert=counts)), "moe.experts")
    assert found.work.moved_bytes > 47 * 128 * 3 * 2048 * 768 * 2
    assert found.calls_count == 48


def test_ranks_share_matrices_and_add_up_over_the_wire() -> None:
    one, four = step_work(LLAMA, DECODE), step_work(LLAMA, DECODE, Plan(tp=4))
    for name in ("mixer.qkv", "mixer.o", "mlp.gate_up", "mlp.down", "attention.full", "lm_head"):
        assert part(four, name).work.flop * 4 == part(one, name).work.flop
    reduced = part(four, "mixer.reduce")
    assert (reduced.kernel_class, reduced.calls_count) == ("comm", 32)
    assert reduced.work.link_bytes == 32 * 1.5 * 64 * 4096 * 2
    assert step_total(one).link_bytes == 0


def test_kv_heads_are_copied_where_there_are_fewer_than_ranks() -> None:
    four, eight = (part(step_work(QWEN, DECODE, Plan(tp=tp)), "kv_write").work.moved_bytes for tp in (4, 8))
    assert four == eight


def test_experts_that_are_shared_out_are_exchanged_where_ranks_have_their_own_tokens() -> None:
    same = step_work(QWEN, DECODE, Plan(tp=4, ep=4))
    assert {p.part for p in same if p.kernel_class == "comm"} >= {"mixer.reduce", "ffn.reduce"}
    assert not [p for p in same if p.part == "moe.dispatch"]
    spread = step_work(QWEN, DECODE, Plan(ep=16, domain=8))
    sent = part(spread, "moe.dispatch").work
    assert sent.network_bytes == pytest.approx(sent.link_bytes * 8 / 7)
    assert len(part(spread, "moe.experts").work.assumes) == 2
    assert part(spread, "moe.experts").work.flop == part(step_work(QWEN, DECODE), "moe.experts").work.flop


@pytest.mark.parametrize(("plan", "named"), [
    ({"tp": 3}, "3 equal parts"), ({"tp": 64}, "equal parts"), ({"tp": 1, "ep": 3}, "128 experts"),
    ({"tp": 2, "ep": 3}, "no multiple"), ({"tp": 5}, "cannot be cut"),
])
def test_what_cannot_be_cut_is_refused(plan: dict[str, int], named: str) -> None:
    with pytest.raises(CannotAnswer, match=named):
        step_work(QWEN, DECODE, Plan(**plan))    # type: ignore[arg-type]


def test_narrow_weights_run_in_what_the_device_has() -> None:
    wide = frozenset(("bf16", "fp32"))
    assert part(step_work(DEEPSEEK, DECODE), "mixer.o").work.flop_in("fp8") > 0
    old = step_work(DEEPSEEK, DECODE, Plan(precisions=wide))                 # type: ignore[arg-type]
    assert step_total(old).flop_in("fp8") == 0
    assert [p for p in old if p.kernel_class == "quant"] == []
    assert [p.kernel_class for p in step_work(DEEPSEEK, DECODE) if p.part == "mixer.o.quantize"] == ["quant"]


def test_latent_attention_is_absorbed_in_decodes_and_not_in_prefills() -> None:
    decode = step_work(DEEPSEEK, DECODE)
    assert part(decode, "attention.mla").work.flop == 61 * 2 * 128 * 64 * 1000 * (576 + 512)
    chunk = step_work(DEEPSEEK, Batch(prefills=(Chunk(100, 400),)))
    pairs = 100 * 400 - 100 * 99 // 2
    assert part(chunk, "attention.mla").work.flop == 61 * 2 * 128 * pairs * (192 + 128)
    assert part(chunk, "mixer.kv_b").work.flop == 61 * 2 * 400 * 512 * 128 * 256
    assert "anew" in step_total(chunk).assumes[0]


def test_a_latent_cache_in_its_fp8_layout_is_656_bytes_a_token() -> None:
    plan = Plan(cache=CacheFormat(FP8, latent_bytes=FP8_LATENT))
    plain, special = (part(step_work(DEEPSEEK, DECODE, p), "attention.mla").work.moved_bytes for p in (Plan(), plan))
    assert plain - special == 61 * 64 * 1000 * (1152 - 656)


def test_windows_bound_what_a_decode_reads() -> None:
    oss = read(configs.GPT_OSS)
    near, far = (step_work(oss, Batch(decodes=(n,))) for n in (200, 100_000))
    assert part(near, "attention.sliding").work == part(far, "attention.sliding").work
    assert part(far, "attention.full").work.flop == 500 * part(near, "attention.full").work.flop


def test_a_chunk_of_llama_4_begins_anew() -> None:
    maverick = read(configs.MAVERICK)
    before, after = (step_work(maverick, Batch(decodes=(n,))) for n in (8192, 8193))
    flop = [part(p, "attention.sliding").work.flop for p in (before, after)]
    assert flop[0] == 8192 * flop[1]


def test_drafted_tokens_share_the_reading() -> None:
    one, four = (step_work(LLAMA, Batch(decodes=(1000,) * 8, queries_count=q)) for q in (1, 4))
    plain, drafted = (part(p, "attention.full").work for p in (one, four))
    assert drafted.flop == pytest.approx(4 * plain.flop, rel=0.01)
    assert drafted.moved_bytes == pytest.approx(plain.moved_bytes, rel=0.02)
    assert part(four, "lm_head").work.flop == 4 * part(one, "lm_head").work.flop


def test_linear_layers_move_their_states_once() -> None:
    nexts = read(configs.QWEN3_NEXT)
    near, far = (part(step_work(nexts, Batch(decodes=(n,))), "linear.gated_delta") for n in (10, 100_000))
    assert near.work == far.work and near.calls_count == 36
    assert near.work.moved_bytes > 36 * 2 * 32 * 128 * 128 * 4
    assert near.work.flops == (("fp32", 36 * 7 * 32 * 128 * 128),)


def test_an_empty_batch_is_no_step() -> None:
    assert step_work(LLAMA, Batch()) == ()


def test_a_chunk_longer_than_its_context_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk"):
        Chunk(5, 4)


def test_the_roof_of_a_step_is_the_sum_of_its_parts_roofs() -> None:
    device = device_of("NVIDIA H200")
    assert device is not None
    ceilings = measured_ceilings(device)
    found = step_roof(step_work(QWEN, DECODE), ceilings)
    assert isinstance(found, StepRoof)
    assert found.time_ns == pytest.approx(15.82e6, rel=0.01)
    assert sum(found.class_ns().values()) == pytest.approx(found.time_ns)
    assert found.class_ns()["moe_gemm"] == pytest.approx(13.6e6, rel=0.01)
    assert (len(found.assumes), found.disputed) == (1, ())
    spread = step_roof(step_work(QWEN, DECODE, Plan(ep=16)), ceilings)
    assert isinstance(spread, NoRoof) and spread.reason.startswith("moe.dispatch: h200: the speed of its network")


def test_parts_of_one_name_are_one() -> None:
    parts = [StepPart("a", "gemm", 1, Work((), 1)), StepPart("b", "norm", 1, Work()), StepPart("a", "gemm", 2,
             Work((), 2))]  # fmt: skip
    assert merged(parts) == (StepPart("a", "gemm", 3, Work((), 3)), StepPart("b", "norm", 1, Work()))


def test_layers_alike_are_counted_once_in_their_formats_too() -> None:
    every = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    some = {**every, "modules_to_not_convert": ["model.layers.3"]}
    alike, odd = (read({**configs.QWEN3_8B, "quantization_config": q}) for q in (every, some))
    assert set(first_alike(alike)) == {0}
    assert first_alike(odd)[:5] == (0, 0, 0, 3, 0)
    lone = [part for index, layer in enumerate(odd.layers) for part in layer_parts(odd, layer, index, DECODE, Plan())]
    assert step_total(step_work(odd, DECODE)).flop - step_total(lone).flop == pytest.approx(
        step_total(step_work(replace(odd, layers=()), DECODE)).flop)  # fmt: skip


def test_experts_of_idle_replicas_compute_for_the_others_alone() -> None:
    busy, alone = (by_class(step_work(QWEN, DECODE, Plan(ep=8, busy_ratio=r)))["moe_gemm"] for r in (1.0, 1 / 8))
    assert alone.flop == pytest.approx(busy.flop / 8)
    assert alone.moved_bytes < busy.moved_bytes
