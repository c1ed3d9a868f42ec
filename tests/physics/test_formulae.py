"""The formulae against figures worked out elsewhere: a sheet of workloads of a survey, in GFLOP and MB."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pellucid.physics.formats import FP8, FP8_BLOCK, NVFP4, NVFP4_WEIGHTS, grouped
from pellucid.physics.formulae.attention import (
    Heads,
    Storage,
    causal_pairs,
    chunked_pairs,
    decode,
    mla_decode,
    prefill,
    tree,
)
from pellucid.physics.formulae.collective import Ranks, all_gather, all_reduce, all_to_all
from pellucid.physics.formulae.matmul import gemm, wave_ratio
from pellucid.physics.formulae.moe import Shape, combine, experts, padding_ratio, ranks_touched, router, touched
from pellucid.physics.formulae.pointwise import (
    activation,
    embedding,
    gated_activation,
    kv_write,
    norm,
    quantize,
    rope,
    sampling,
)
from pellucid.physics.work import Work, total

H = Heads(32, 8, 128, 128)
QWEN = Shape(128, 8, 2048, 768)
W4 = grouped(4, 128, zero_points=False)
SHEET: list[tuple[str, Callable[[], Work], float, float]] = [
    ("prefill causal 4096", lambda: prefill(H, 4096, 4096), 137, 84),
    ("prefill causal 16384", lambda: prefill(H, 16_384, 16_384), 2199, 336),
    ("prefill full 4 x 4096", lambda: prefill(H, 4096, 4096, causal=False).times(4), 1100, 336),
    ("chunk 2048 on 30 k", lambda: prefill(H, 2048, 32_768), 1065, 168),
    ("decode 32 x 4096", lambda: decode(H, [4096] * 32), 2.15, 537),
    ("decode 32 x 4096 fp8", lambda: decode(H, [4096] * 32, storage=Storage(cache=FP8)), 2.15, 269),
    ("decode 128 x 2048", lambda: decode(H, [2048] * 128), 4.29, 1076),
    ("tree 16, 32 x 4096", lambda: tree(H, 4096, range(1, 17)).times(32), 34, 545),
    ("tree 64, 8 x 4096", lambda: tree(H, 4096, range(1, 65)).times(8), 34, 143),
    ("MLA 128 x 4096, 128 heads", lambda: mla_decode(128, [4096] * 128), 146, 640),
    ("MLA 128 x 4096, 16 heads", lambda: mla_decode(16, [4096] * 128), 18, 608),
    ("bf16 8192", lambda: gemm(8192, 8192, 8192), 1100, 403),
    ("bf16 M 16", lambda: gemm(16, 8192, 8192), 2.1, 135),
    ("fp8 4096 x 7168 x 16384", lambda: gemm(4096, 7168, 16_384, FP8, FP8), 962, 243),
    ("fp8 M 64", lambda: gemm(64, 7168, 16_384, FP8, FP8), 15, 119),
    ("W4A16 M 1", lambda: gemm(1, 8192, 8192, W4), 0.134, 35),
    ("W4A16 M 64", lambda: gemm(64, 8192, 8192, W4), 8.6, 37),
    ("NVFP4 M 16", lambda: gemm(16, 8192, 8192, NVFP4_WEIGHTS), 2.1, 38),
    ("MoE T 1", lambda: experts(QWEN, 1), 0.0755, 76),
    ("MoE T 16", lambda: experts(QWEN, 16), 1.2, 780),
    ("MoE T 64", lambda: experts(QWEN, 64), 4.8, 1195),
    ("MoE T 8192", lambda: experts(QWEN, 8192), 618, 2047),
    ("MoE DeepSeek-V3 T 128", lambda: experts(Shape(256, 8, 7168, 2048), 128, FP8_BLOCK, FP8), 90, 11_102),
    ("norm with residual", lambda: norm(8192, 8192, residual=True), 0.335, 537),
    ("SwiGLU", lambda: gated_activation(8192, 14_336), 0.47, 705),
    ("rope", lambda: rope(8192, 40, 128), 0.126, 170),
    ("KV write", lambda: kv_write(8192, 2 * 8 * 128, cache=FP8), 0.0168, 50),
    ("top-p 128", lambda: sampling(128, 131_072), 0.0336, 67),
]


@pytest.mark.parametrize(("name", "make", "gflop", "megabytes"), SHEET, ids=[row[0] for row in SHEET])
def test_the_sheets_figures(name: str, make: Callable[[], Work], gflop: float, megabytes: float) -> None:
    work = make()
    assert work.flop / 1e9 == pytest.approx(gflop, rel=0.03), name
    assert work.moved_bytes / 1e6 == pytest.approx(megabytes, rel=0.012), name


def brute(tokens: int, context: int, see: Callable[[int, int], bool]) -> int:
    return sum(see(q, k) for q in range(context - tokens, context) for k in range(q + 1))


@pytest.mark.parametrize("tokens", [0, 1, 3, 7, 12])
@pytest.mark.parametrize("context", [12, 13, 20])
@pytest.mark.parametrize("window", [1, 2, 5, 12, 19, 20, 21])
def test_pairs_are_those_one_counts_one_by_one(tokens: int, context: int, window: int) -> None:
    assert causal_pairs(tokens, context) == brute(tokens, context, lambda q, k: k <= q)
    assert causal_pairs(tokens, context, window) == brute(tokens, context, lambda q, k: q - k < window)
    assert chunked_pairs(tokens, context, window) == brute(tokens, context, lambda q, k: q // window == k // window)


def test_more_queries_than_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="more queries than positions"):
        causal_pairs(5, 4)


def test_a_split_context_writes_and_reads_partial_results() -> None:
    extra = decode(H, [131_072], splits_count=8).moved_bytes - decode(H, [131_072]).moved_bytes
    assert extra == 2 * 4 * 32 * 8 * (128 + 2)


def test_pages_are_addressed_by_four_bytes_each() -> None:
    assert decode(H, [17], page_tokens=16).moved_bytes - decode(H, [17], page_tokens=32).moved_bytes == 4


def test_exponentials_are_one_for_each_pair_and_head() -> None:
    assert prefill(H, 100, 100).exp_count == 32 * 5050
    assert decode(H, [100, 200]).exp_count == 32 * 300
    assert mla_decode(16, [100]).exp_count == 16 * 100


def test_a_latent_vector_is_read_once_for_all_heads() -> None:
    one, many = (mla_decode(h, [1_000_000]).moved_bytes for h in (1, 128))
    assert one == pytest.approx(1_000_000 * 576 * 2, rel=1e-4)
    assert many - one == 127 * (576 + 512) * 2


def test_block_scales_of_both_sides_are_moved() -> None:
    plain, scaled = gemm(256, 512, 1024, FP8, FP8), gemm(256, 512, 1024, FP8_BLOCK, FP8)
    assert scaled.moved_bytes - plain.moved_bytes == 4 * (4 * 8) + 4 * 256 * 8 - 4
    assert (plain.flops, scaled.flops) == ((("fp8", 2.0 * 256 * 512 * 1024),),) * 2


def test_narrow_weights_are_multiplied_in_sixteen_bits() -> None:
    assert gemm(1, 8, 128, W4).flops == (("bf16", 2048.0),)
    assert gemm(1, 8, 128, NVFP4).flops == (("fp4", 2048.0),)
    assert gemm(1, 8, 128, NVFP4, precision="bf16").flops == (("bf16", 2048.0),)


def test_zero_points_are_as_wide_as_the_weights() -> None:
    assert grouped(4, 128, True).stored_bytes(8192, 8192) - W4.stored_bytes(8192, 8192) == 8192 * 64 / 2


def test_a_model_of_2_8_trillion_is_1_575_tb_in_nvfp4() -> None:
    rows = 175_000_000_000
    assert NVFP4.stored_bytes(rows, 16) == pytest.approx(1.575e12, rel=1e-9)
    assert NVFP4.stored_bytes(1, 17) == 17 / 2 + 2 + 4     # a block begun is a scale


def test_a_grid_one_tile_too_large_leaves_most_of_a_wave_idle() -> None:
    assert wave_ratio(128 * 132, 256, 128, 256, 132) == 1
    assert wave_ratio(128 * 133, 256, 128, 256, 132) == pytest.approx(133 / 264)
    assert wave_ratio(129, 600, 128, 256, 132, splits_count=3) == 18 / 132


def test_uniform_routing_is_said_to_be_assumed_and_real_counts_are_not() -> None:
    assert touched(128, 8, 64) == pytest.approx(125.9, abs=0.1)
    assert "uniform" in experts(QWEN, 64).assumes[0]
    skewed = experts(QWEN, 64, tokens_by_expert=[64] * 8 + [0] * 120)
    assert skewed.assumes == ()
    assert skewed.moved_bytes == 8 * 3 * 2048 * 768 * 2 + 512 * (2 * 2048 + 3 * 768) * 2
    assert skewed.flop == experts(QWEN, 64).flop


def test_a_device_with_half_of_the_experts_has_half_of_the_work() -> None:
    whole, half = experts(QWEN, 64), experts(QWEN, 64, local_count=64)
    assert half.flop == whole.flop / 2
    assert half.moved_bytes == pytest.approx(whole.moved_bytes / 2)


def test_tiles_of_experts_are_filled_up() -> None:
    assert padding_ratio([64, 1, 0], 64) == 128 / 65
    assert padding_ratio([0, 0], 64) == 1


@pytest.mark.parametrize(("experts_count", "active", "ranks", "expected"), [
    (128, 8, 1, 1), (8, 8, 4, 4), (4, 1, 4, 1), (4, 2, 2, 2 - 1 / 3),
])  # fmt: skip
def test_ranks_that_a_token_goes_to(experts_count: int, active: int, ranks: int, expected: float) -> None:
    assert ranks_touched(experts_count, active, ranks) == pytest.approx(expected)


def test_small_parts_by_hand() -> None:
    assert router(10, 64, 8).moved_bytes == 10 * 64 * 2 + 64 * 8 * 2 + 4 * 80
    assert combine(10, 2, 64).moved_bytes == 10 * 64 * 3 * 2
    assert norm(10, 64).moved_bytes == 2 * 10 * 64 * 2 + 64 * 2
    assert norm(10, 64, residual=True, outputs=FP8).moved_bytes == 10 * 64 * (6 + 1) + 128 + 40
    assert activation(10, 64).moved_bytes == 2 * 10 * 64 * 2
    assert quantize(10, 130, FP8).moved_bytes == 10 * 130 * 3 + 4 * 10 * 2
    assert embedding(10, 64).moved_bytes == 2 * 10 * 64 * 2 + 40
    assert kv_write(10, 64).flop == 0


@pytest.mark.parametrize(("algorithm", "sent"), [("ring", 1.75), ("one_shot", 7), ("switch", 1)])
def test_an_all_reduce_of_eight(algorithm: str, sent: float) -> None:
    work = all_reduce(1.0, Ranks(8, 8), algorithm)       # type: ignore[arg-type]
    assert (work.link_bytes, work.network_bytes) == (sent, 0)


def test_an_all_reduce_over_two_boards_reduces_an_eighth_between_them() -> None:
    assert all_reduce(1.0, Ranks(16, 8)) == Work(link_bytes=1.75, network_bytes=2 / 2 / 8)
    assert all_reduce(1.0, Ranks(16, 72)) == Work(link_bytes=2 * 15 / 16)


def test_gathers_and_exchanges() -> None:
    assert all_gather(16.0, Ranks(16, 8)) == Work(link_bytes=14.0, network_bytes=1.0)
    assert all_to_all(16.0, Ranks(16, 8)) == Work(link_bytes=7.0, network_bytes=8.0)
    assert all_to_all(16.0, Ranks(1, 8)) == all_reduce(16.0, Ranks(1, 8)) == Work()


def test_ranks_that_do_not_fill_their_domains_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fill"):
        Ranks(12, 8)


def test_works_add_up_by_precision() -> None:
    added = total([Work.of("bf16", 2, 10), Work.of("fp8", 3, 20, 5), Work.of("bf16", 4, 0).assuming("a", "a")])
    assert added == Work((("bf16", 6), ("fp8", 3)), 30, 5, assumes=("a",))
    assert (added.flop, added.intensity, Work().intensity) == (9, 0.3, None)
    assert added.times(2) == Work((("bf16", 12), ("fp8", 6)), 60, 10, assumes=("a",))
    assert Work(link_bytes=2, network_bytes=3).times(2) == Work(link_bytes=4, network_bytes=6)
