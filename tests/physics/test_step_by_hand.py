"""Parts of a step worked out by hand, in bytes and flop, for models small enough to do so."""

from __future__ import annotations

import pytest

from pellucid.physics.config.read import read
from pellucid.physics.geometry import Attention, Dense, Geometry, Indexer, Layer, Linear, Mla, Moe
from pellucid.physics.parameters import count
from pellucid.physics.step.batch import Batch, Chunk, Plan
from pellucid.physics.step.mixer import seen
from pellucid.physics.step.model import step_work
from pellucid.physics.tensors import tensors
from tests.physics import configs

H, V = 64, 1000
GROUPED = Attention(4, 2, 16, 16, rotary_dim=8, qk_norm="head")
LATENT = Mla(4, 24, 32, 16, 8, 12, Indexer(2, 16, 10))
DELTA = Linear("gated_delta", 2, 4, 8, 8, 4)
MOE = Moe(8, 2, 32, shared_width=16)
BATCH = Batch((Chunk(3, 5), Chunk(2, 2, sampled=False)), (7, 9))      # 7 tokens, 3 rows of logits


def of(layer: Layer, batch: Batch = BATCH, plan: Plan | None = None) -> dict[str, tuple[int, float, float]]:
    """Part → (calls, flop, bytes) of a model of two such layers, both layers together."""
    parts = step_work(Geometry("tiny", H, V, (layer, layer)), batch, plan)
    return {p.part: (p.calls_count, p.work.flop, p.work.moved_bytes) for p in parts}


def test_grouped_attention_and_a_dense_part() -> None:
    found = of(Layer(GROUPED, Dense(48)))
    qkv = (4 + 2 * 2) * 16
    assert found["mixer.qkv"] == (2, 2 * 2 * 7 * qkv * H, 2 * 2 * (7 * H + qkv * H + 7 * qkv))
    assert found["mixer.o"] == (2, 2 * 2 * 7 * H * 64, 2 * 2 * (7 * 64 + H * 64 + 7 * H))
    assert found["mixer.qk_norm"][2] == 2 * 2 * (2 * 7 * 6 * 16 + 6 * 16)
    assert found["rope"] == (2, 2 * 3 * 7 * 6 * 8, 2 * 2 * (2 * 7 * 6 * 8 + 7 * 8))
    assert found["kv_write"] == (2, 0, 2 * (7 * 2 * 32 * 4 + 8 * 7))
    pairs = (3 * 5 - 3) + 3 + 7 + 9
    moved = 2 * ((3 + 2 + 2) * 4 * 32 + (5 + 2 + 7 + 9) * 2 * 32) + 4 * 2       # q and o, keys and values, two pages
    assert found["attention.full"] == (2, 2 * 2 * 4 * 32 * pairs, 2 * moved)
    assert found["mlp.gate_up"] == (2, 2 * 2 * 7 * 96 * H, 2 * 2 * (7 * H + 96 * H + 7 * 96))
    assert found["mlp.activation"] == (2, 2 * 4 * 7 * 48, 2 * 7 * 48 * 6)
    assert found["mlp.down"][1] == 2 * 2 * 7 * 48 * H


def test_before_and_after_the_layers() -> None:
    found = of(Layer(GROUPED, Dense(48)))
    assert found["embedding"] == (1, 0, 2 * 7 * H * 2 + 28)
    assert found["norm"] == (5, 5 * 5 * 7 * H, 5 * (4 * 7 * H + H) * 2)
    assert found["lm_head"] == (1, 2 * 3 * V * H, 2 * (3 * H + V * H + 3 * V))
    assert found["sampling"] == (1, 2 * 3 * V, 3 * V * 4)
    assert "lm_head" not in of(Layer(GROUPED, Dense(48)), Batch((Chunk(2, 2, sampled=False),)))


def test_experts_beside_a_shared_one() -> None:
    found = of(Layer(GROUPED, MOE))
    hit = 8 * (1 - (6 / 8) ** 7)
    assert found["moe.router"] == (2, 2 * 2 * 7 * 8 * H, 2 * 2 * (7 * H + 8 * H + 7 * 8))
    assert found["moe.experts"][:2] == (2, 2 * 2 * 3 * 14 * H * 32)
    assert found["moe.experts"][2] == pytest.approx(2 * 2 * (hit * 3 * H * 32 + 14 * (2 * H + 3 * 32)))
    assert found["moe.activation"][2] == 2 * 14 * 32 * 6
    assert found["moe.combine"] == (2, 2 * 2 * 7 * 2 * H, 2 * 7 * H * 3 * 2)
    assert found["moe.shared_up"][1] == 2 * 2 * 7 * 32 * H
    assert found["moe.shared_down"][1] == 2 * 2 * 7 * 16 * H
    assert found["moe.shared_activation"] == (2, 2 * 4 * 7 * 16, 2 * 7 * 16 * 6)


def test_latent_attention_with_an_indexer() -> None:
    found = of(Layer(LATENT, None))
    assert found["mixer.qkv_a"][:2] == (2, 2 * 2 * 7 * (24 + 40) * H)
    assert found["mixer.q_b"][1] == 2 * 2 * 7 * 4 * 24 * 24
    up = 4 * (16 + 12)
    moved = 2 * (up * 32 + 7 * (32 + up) + 2 * 4 * (16 + 12 + 64))
    assert found["mixer.kv_b"] == (2, 2 * 2 * (5 + 2 + 2) * up * 32, 2 * moved)
    assert found["mixer.latent_norm"][2] == 2 * 2 * (2 * 7 * 56 + 56)
    assert found["rope"][1] == 2 * 3 * 7 * 5 * 8
    assert found["kv_write"][2] == 2 * (7 * 40 * 4 + 56)
    pairs = (3 * 5 - 3) + 3
    assert found["attention.mla"][1] == 2 * (2 * 4 * (24 + 12) * pairs + 2 * 4 * (40 + 32) * 16)
    assert found["attention.indexer"] == (2, 2 * 2 * 2 * 16 * (pairs + 16), 2 * 16 * (16 + 4))
    assert (found["mixer.index_q"][1], found["mixer.index_k"][1]) == (2 * 2 * 7 * 32 * 24, 2 * 2 * 7 * 18 * H)


def test_sparse_attention_reads_no_more_than_it_picks() -> None:
    near, far = (of(Layer(LATENT, None), Batch(decodes=(n,))) for n in (10, 1000))
    assert near["attention.mla"] == far["attention.mla"]
    assert far["attention.indexer"][2] == 100 * near["attention.indexer"][2]
    drafted = of(Layer(LATENT, None), Batch(decodes=(10,), queries_count=3))
    assert drafted["attention.indexer"][1] == 3 * near["attention.indexer"][1]


def test_a_linear_layer() -> None:
    calls, flop, moved = of(Layer(DELTA, None))["linear.gated_delta"]
    state = 4 * 8 * 8 * 4 + (2 * 16 + 32) * 3 * 2
    assert (calls, flop) == (2, 2 * 7 * 7 * 4 * 8 * 8)
    assert moved == 2 * (7 * (2 * 16 + 2 * 32) * 2 + 2 * 4 * state)
    halved = of(Layer(DELTA, None), plan=Plan(tp=2))["linear.gated_delta"]
    assert (halved[1] * 2, halved[2] * 2) == (flop, moved)
    inner = Layer(Linear("mamba1", 1, 32, 8, 1, 4, 3), None)
    assert of(inner)["linear.mamba1"] == (2, 2 * 7 * 5 * 256, 2 * (7 * (64 + 16) * 2 + 2 * 4 * (256 * 4 + 32 * 3 * 2)))


def test_windows_of_drafted_tokens_and_of_chunks() -> None:
    sliding = Attention(4, 2, 16, 16, window_tokens=8)
    assert [seen(sliding, n) for n in (5, 8, 9)] == [5, 8, 8]
    assert seen(sliding, 100, queries=3) == 10
    chunked = Attention(4, 2, 16, 16, window_tokens=8, chunked=True)
    assert [seen(chunked, n) for n in (0, 1, 8, 9, 16, 17)] == [0, 1, 8, 1, 8, 1]
    _, flop, moved = of(Layer(chunked, None), Batch((Chunk(4, 10, sampled=False),)))["attention.sliding"]
    assert flop == 2 * 2 * 4 * 32 * (7 + 8 + 1 + 2)
    assert moved == 2 * 2 * (4 * 4 * 32 + 10 * 2 * 32)


def test_a_layer_with_nothing_but_a_mixer_and_one_norm() -> None:
    found = of(Layer(DELTA, None, norms_count=1))
    assert found["norm"][0] == 3
    assert not [name for name in found if name.startswith(("mlp", "moe"))]


def test_the_tensors_of_an_mtp_head() -> None:
    layer = Layer(GROUPED, Dense(48))
    made = count(Geometry("tiny", H, V, (layer,), (layer, layer)))
    inside = sum(t.parameters_count for t in tensors(Geometry("tiny", H, V, (layer,))) if t.layer == 0)
    assert made.of("mtp") == 2 * (inside + 2 * H * H + 3 * H)
    assert made.total == inside + 2 * V * H + H


def test_what_biases_and_sinks_and_gates_add() -> None:
    def held(layer: Layer) -> int:
        return count(Geometry("tiny", H, V, (layer,))).total

    plain = held(Layer(Attention(4, 2, 16, 16), Dense(48)))
    assert held(Layer(Attention(4, 2, 16, 16, qkv_bias=True), Dense(48))) - plain == 64 + 32 + 32
    assert held(Layer(Attention(4, 2, 16, 16, o_bias=True), Dense(48))) - plain == H
    assert held(Layer(Attention(4, 2, 16, 16, sinks=True), Dense(48))) - plain == 4
    assert held(Layer(Attention(4, 2, 16, 16, gate=True), Dense(48))) - plain == 64 * H
    assert held(Layer(Attention(4, 2, 16, 16, qk_norm="head"), Dense(48))) - plain == 32
    assert held(Layer(Attention(4, 2, 16, 16, qk_norm="all"), Dense(48))) - plain == 64 + 32
    assert held(Layer(Attention(4, 2, 16, 16), Dense(48, bias=True))) - plain == 48 + 48 + H
    assert held(Layer(Attention(4, 2, 16, 16), Dense(48, gated=False))) - plain == -48 * H
    assert held(Layer(Mla(4, 24, 32, 16, 8, 12, bias=True), None)) - held(Layer(Mla(4, 24, 32, 16, 8, 12), None)) == (
        24 + 40 + H)
    moe = held(Layer(GROUPED, Moe(8, 2, 32)))
    assert held(Layer(GROUPED, Moe(8, 2, 32, router_bias=True))) - moe == 8
    assert held(Layer(GROUPED, Moe(8, 2, 32, expert_bias=True))) - moe == 8 * (64 + H)
    assert held(Layer(GROUPED, Moe(8, 2, 32, shared_width=16, shared_gate=True))) - moe == 3 * 16 * H + H
    assert held(Layer(GROUPED, Moe(8, 2, 32, gated=False))) - moe == -8 * 32 * H


def test_fp8_activations_are_made_narrow_with_their_scales() -> None:
    quantized = {**configs.LLAMA_8B, "quantization_config": configs.FP8_BLOCKS}
    parts = {p.part: p for p in step_work(read(quantized), Batch(decodes=(1, 1)))}
    narrow = parts["mlp.down.quantize"].work
    assert narrow.moved_bytes == 32 * 2 * (14_336 * 3 + 4 * 112)
    down = parts["mlp.down"].work
    scales = 4 * (32 * 112)
    assert down.moved_bytes == 32 * (2 * (14_336 + 4 * 112 + 4096 * 2) + 4096 * 14_336 + scales)


def test_a_rank_of_two_moves_half_of_what_is_cut() -> None:
    found = of(Layer(GROUPED, MOE), plan=Plan(tp=2))
    assert found["mixer.o"][2] == 2 * 2 * (7 * 32 + H * 32 + 7 * H)
    assert found["moe.activation"][2] == 2 * 14 * 16 * 6
    assert found["lm_head"][1] == 2 * 3 * 500 * H
    odd = step_work(Geometry("tiny", H, 1001, (Layer(GROUPED, None),)), BATCH, Plan(tp=2))
    assert next(p for p in odd if p.part == "lm_head").work.flop == 2 * 3 * 501 * H
    gathered = next(p for p in odd if p.part == "lm_head.gather").work
    assert (gathered.link_bytes, gathered.moved_bytes) == (3 * 1001 * 2 / 2, 0)
    assert {p.part: p.calls_count for p in odd if p.kernel_class == "comm"} == {
        "embedding.reduce": 1, "mixer.reduce": 1, "lm_head.gather": 1}  # fmt: skip


def test_experts_on_two_ranks_keep_their_width() -> None:
    found = of(Layer(GROUPED, MOE), plan=Plan(tp=2, ep=2))
    hit = 4 * (1 - (6 / 8) ** 7)
    assert found["moe.experts"][2] == pytest.approx(2 * 2 * (hit * 3 * H * 32 + 7 * (2 * H + 3 * 32)))


def test_the_tensors_of_a_layer_of_kimi_delta_attention() -> None:
    """As its own modelling file has them: q, k, v and o, three convolutions, decay and gate of low rank, beta."""
    layer = Layer(Linear("kda", 2, 2, 8, 8, 4), None, norms_count=0)
    projections, gates, beta = 4 * 16 * H, 2 * (8 * H + 16 * 8), 2 * H
    convolutions, decay, norm = 3 * 16 * 4, 2 + 16, 8
    made = count(Geometry("tiny", H, V, (layer,))).total - 2 * V * H - H
    assert made == projections + gates + beta + convolutions + decay + norm


def test_exchanged_tokens_go_once_to_each_rank_that_has_an_expert_of_theirs() -> None:
    parts = step_work(Geometry("tiny", H, V, (Layer(GROUPED, MOE),)), BATCH, Plan(tp=2, ep=4, domain=4))
    copies = 4 * (1 - (6 * 5) / (8 * 7))
    for name in ("moe.dispatch", "moe.return"):
        found = next(p for p in parts if p.part == name)
        assert (found.calls_count, found.kernel_class) == (1, "comm")
        assert found.work.link_bytes == pytest.approx(7 / 2 * copies * H * 2 * 3 / 4)
    assert next(p for p in parts if p.part == "moe.experts").work.flop == 2 * 3 * (14 * 2 / 4) * H * 32
    assert next(p for p in parts if p.part == "moe.activation").work.moved_bytes == 14 * 2 / 4 * 32 * 6
