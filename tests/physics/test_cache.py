from __future__ import annotations

import pytest

from pellucid.physics.cache import FP8_LATENT, CacheFormat, kv_bytes_per_token, request_bytes, state_bytes
from pellucid.physics.config.read import read
from pellucid.physics.formats import BF16, FP8, NVFP4
from tests.physics import configs
from tests.physics.configs import Config


# Bytes of one token in bf16, while no window is full.
@pytest.mark.parametrize(("config", "expected"), [
    (configs.DEEPSEEK_V3, 70_272),         # 61 · 576 · 2: DeepSeek-V3 report
    (configs.KIMI_K2, 70_272),
    (configs.LLAMA_8B, 131_072),           # 2 · 32 · 8 · 128 · 2
    (configs.LLAMA_70B, 327_680),
    (configs.QWEN3_30B, 98_304),           # 2 · 48 · 4 · 128 · 2
    (configs.QWEN3_NEXT, 24_576),          # 12 layers · 2 · 2 · 256 · 2
    (configs.MAMBA, 0),
], ids=lambda v: v["model_type"] if isinstance(v, dict) else "")  # fmt: skip
def test_the_cache_of_a_token(config: Config, expected: int) -> None:
    assert kv_bytes_per_token(read(config)) == expected


def test_formats_of_the_cache() -> None:
    llama, deepseek = read(configs.LLAMA_8B), read(configs.DEEPSEEK_V3)
    assert kv_bytes_per_token(llama, CacheFormat(FP8)) == 65_536
    assert kv_bytes_per_token(llama, CacheFormat(NVFP4)) == 131_072 * 4.5 / 16
    assert kv_bytes_per_token(deepseek, CacheFormat(FP8, latent_bytes=FP8_LATENT)) == 656 * 61 == 40_016


def test_an_indexer_caches_a_key_in_fp8_with_its_scale() -> None:
    sparse, dense = (kv_bytes_per_token(read(c)) for c in (configs.DEEPSEEK_V32, configs.DEEPSEEK_V3))
    assert sparse - dense == 61 * (128 + 4)


@pytest.mark.parametrize(("config", "tokens", "expected"), [
    (configs.MISTRAL_7B, 4096, 4096 * 131_072), (configs.MISTRAL_7B, 50_000, 4096 * 131_072),
    (configs.GPT_OSS, 128, 128 * 73_728), (configs.GPT_OSS, 1000, 36_864 * (128 + 1000)),
    (configs.LLAMA_8B, 1000, 131_072_000),
], ids=["to the window", "beyond", "to the window", "half of the layers", "no window"])  # fmt: skip
def test_a_sliding_layer_holds_its_window(config: Config, tokens: int, expected: int) -> None:
    assert request_bytes(read(config), tokens) == expected


def test_the_state_of_linear_layers_does_not_grow() -> None:
    geometry = read(configs.QWEN3_NEXT)
    # 36 layers: 32 heads · 128 · 128 in fp32, and 3 past positions of 8,192 channels in bf16.
    assert state_bytes(geometry) == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert state_bytes(geometry, CacheFormat(state=BF16)) == 36 * (32 * 128 * 128 * 2 + 3 * 8192 * 2)
    assert request_bytes(geometry, 5000) - request_bytes(geometry, 4000) == 1000 * 24_576


def test_the_states_of_other_rules() -> None:
    assert state_bytes(read(configs.MAMBA)) == 64 * (5120 * 16 * 4 + 3 * 5120 * 2)
    assert state_bytes(read(configs.MINIMAX_01)) == 70 * 64 * 128 * 128 * 4
    assert state_bytes(read(configs.KIMI_LINEAR)) == 20 * (32 * 128 * 128 * 4 + 3 * 3 * 4096 * 2)
