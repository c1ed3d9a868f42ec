"""What a GPU holds: beside what engines said in their logs, and laws that hold for any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.physics.cache import CacheFormat, kv_bytes_per_token
from pellucid.physics.config.read import read
from pellucid.physics.formats import BF16, FP8, Format
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import weight_bytes
from pellucid.sim.paper.held import kv_on, layer_token_bytes, request_on, stage_weights, weights_on
from pellucid.sim.paper.placement import Placement, Way, placements, stages
from tests.physics import configs
from tests.physics.configs import Config

GIB = 2**30
MODELS = [configs.LLAMA_8B, configs.LLAMA_70B, configs.DEEPSEEK_V3, configs.QWEN3_30B, configs.GPT_OSS,
          configs.QWEN3_NEXT, configs.GEMMA2_9B]  # fmt: skip
every_model = st.sampled_from([read(config) for config in MODELS])


def way(tp: int = 1, pp: int = 1, dp: int = 1, ep: bool = False, kv: Format = BF16) -> Way:
    return Way(Placement(tp, pp, dp, ep), 64, CacheFormat(kv))


# "Model loading took N GiB": vLLM 0.24 on an H200 (8B, 30B, V2-Lite shapes), and Ray Serve's log of Llama-70B.
@pytest.mark.parametrize(("config", "tp", "loaded_gib"), [
    (configs.QWEN3_8B, 1, 15.27), (configs.QWEN3_30B, 1, 56.88), (configs.LLAMA_70B, 4, 32.8601),
    (configs.DEEPSEEK_V2_LITE, 1, 29.44),
], ids=["8b", "30b", "70b of four", "v2-lite"])  # fmt: skip
def test_weights_are_within_one_percent_of_what_engines_load(config: Config, tp: int, loaded_gib: float) -> None:
    assert weights_on(read(config), way(tp)) / GIB == pytest.approx(loaded_gib, rel=0.01)


# Available KV memory and the tokens made of it, in the logs of engines: GB300 (Kimi-K2.5), A Ray Serve replica (Llama),
# SGLang's "K size 53.87, V size 53.87" for 911,040 tokens of MiniMax-M2 in fp8.
@pytest.mark.parametrize(("config", "tp", "kv", "free_gib", "tokens"), [
    (configs.KIMI_K2, 4, FP8, 101.4, 3_098_848), (configs.LLAMA_70B, 4, BF16, 35.76, 468_752),
    (configs.MINIMAX_M2, 1, FP8, 107.74, 911_040), (configs.QWEN3_30B, 1, BF16, 64.85, 708_336),
])  # fmt: skip
def test_tokens_of_an_engines_free_memory(config: Config, tp: int, kv: Format, free_gib: float, tokens: int) -> None:
    held = kv_on(read(config), way(tp, kv=kv), 16)
    assert free_gib * GIB / held.token_bytes == pytest.approx(tokens, rel=0.001)


def test_a_latent_vector_lies_on_every_rank_and_heads_are_shared_out() -> None:
    deepseek, llama, qwen = (read(c) for c in (configs.DEEPSEEK_V3, configs.LLAMA_70B, configs.QWEN3_30B))
    assert [kv_on(deepseek, way(tp), 16).token_bytes for tp in (1, 8)] == [70_272, 70_272]
    assert [kv_on(llama, way(tp), 16).token_bytes for tp in (1, 4, 8)] == [327_680, 81_920, 40_960]
    assert [kv_on(qwen, way(tp), 16).copies_ratio for tp in (1, 4, 8)] == [1, 1, 2]      # 4 KV heads


def test_blocks_of_layers_with_and_without_a_window_lie_over_each_other() -> None:
    # 36 layers, 18 of each kind: a block is 16 tokens of 18 layers, 2 · 8 heads · 64 · 2 B each.
    assert kv_on(read(configs.GPT_OSS), way(), 16).block_bytes == 16 * 18 * 2048


def test_mtp_heads_are_on_the_last_stage_and_only_where_asked_for() -> None:
    geometry = read(configs.DEEPSEEK_V3)
    plain, more = (stage_weights(geometry, way(tp=2, pp=2), mtp) for mtp in (False, True))
    assert more[0] == plain[0]
    assert more[1] > plain[1]


def test_a_request_is_held_in_whole_pages() -> None:
    geometry = read(configs.LLAMA_8B)
    assert request_on(geometry, way(), 17, 16) == 32 * 131_072
    assert request_on(geometry, way(), 16, 16) == 16 * 131_072


@given(every_model, st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_more_gpus_never_hold_more_bytes_each(geometry: Geometry, tp: int, ep: bool) -> None:
    both = (way(tp, ep=ep and tp > 1), way(2 * tp, ep=ep))
    fewer, more = ([f(geometry, w) for f in (weights_on, lambda g, w: kv_on(g, w, 16).token_bytes)] for w in both)
    if geometry.moe is not None or not ep:
        assert all(m <= f for f, m in zip(fewer, more, strict=True))


@given(every_model, st.integers(1, 8))
def test_weights_and_kv_of_all_stages_add_up(geometry: Geometry, pp: int) -> None:
    alone = way()
    parts = stage_weights(geometry, way(pp=pp))
    twice = weight_bytes(geometry) + (geometry.vocabulary * geometry.hidden * geometry.dtype.element_bytes
                                      if geometry.tied and pp > 1 else 0)  # fmt: skip
    assert sum(parts) == pytest.approx(twice)
    kv = sum(layer_token_bytes(layer, alone) for stage in stages(geometry, pp) for layer in stage.layers)
    assert kv == pytest.approx(kv_bytes_per_token(geometry))


@given(every_model, st.sampled_from([2, 4, 8]))
def test_kv_of_all_ranks_is_the_models_own_times_its_copies(geometry: Geometry, tp: int) -> None:
    if Placement(tp) not in placements(geometry, tp, 8).possible:
        return
    held = kv_on(geometry, way(tp), 16)
    assert held.token_bytes * tp == pytest.approx(held.copies_ratio * kv_bytes_per_token(geometry))
    assert held.copies_ratio >= 1
