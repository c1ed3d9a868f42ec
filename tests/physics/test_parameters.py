"""Parameters of published models: as transformers 5.19 counts them on the meta device, and as their makers say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pellucid.physics.config.read import read
from pellucid.physics.formats import FP32, NVFP4
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import count, token_flop, weight_bytes
from pellucid.physics.quantization import Quantization
from pellucid.physics.tensors import tensors
from tests.physics import configs
from tests.physics.configs import Config


# Counted by transformers on the meta device with the same config, and the routers' correction biases, which it keeps
# as buffers (DeepSeek-V3: 58 layers · 256). Kimi Linear brings its own code and is not there.
@pytest.mark.parametrize(("config", "total"), [
    (configs.LLAMA_8B, 8_030_261_248), (configs.QWEN3_8B, 8_190_735_360), (configs.QWEN3_30B, 30_532_122_624),
    (configs.QWEN15_MOE, 14_315_784_192), (configs.MIXTRAL, 46_702_792_704), (configs.MISTRAL_7B, 7_241_732_096),
    (configs.GPT_OSS, 116_829_156_672), (configs.GEMMA2_9B, 9_241_705_984), (configs.GEMMA3_4B, 3_880_263_168),
    (configs.DEEPSEEK_V3, 671_026_404_352 + 14_848), (configs.DEEPSEEK_V2_LITE, 15_706_484_224),
    (configs.DEEPSEEK_V32, 671_877_929_216 + 14_848), (configs.KIMI_K2, 1_026_408_209_408 + 23_040),
    (configs.GLM_45, 352_797_814_784 + 14_240), (configs.MINIMAX_M2, 228_689_748_992 + 15_872),
    (configs.MAVERICK, 400_711_848_960), (configs.QWEN3_NEXT, 79_674_391_296),
    (configs.MINIMAX_01, 456_089_655_296), (configs.JAMBA, 51_570_323_328), (configs.MAMBA, 2_768_345_600),
], ids=lambda v: v["model_type"] if isinstance(v, dict) else "")  # fmt: skip
def test_the_total_is_exact(config: Config, total: int) -> None:
    assert count(read(config)).total == total


# Billions as published. "both": the makers count the embedding as active, too; "none": neither it nor the output.
@pytest.mark.parametrize(("config", "total", "active", "counted"), [
    (configs.LLAMA_8B, 8.03, 8.03, "both"),                # Llama 3.1 model card
    (configs.LLAMA_70B, 70.6, 70.6, "both"),               # the same
    (configs.DEEPSEEK_V3, 671, 37, "output"),              # DeepSeek-V3 technical report, abstract
    (configs.KIMI_K2, 1040, 32.6, "both"),                 # Kimi K2 technical report: 1.04 T, 32.6 B
    (configs.QWEN3_30B, 30.5, 3.3, "both"),                # Qwen3 technical report, table 2
    (configs.QWEN3_8B, 8.2, 8.2, "both"),                  # Qwen3-8B model card
    (configs.MIXTRAL, 46.7, 12.9, "both"),                 # Mixtral of Experts, §1: 47 B, 13 B; blog: 46.7, 12.9
    (configs.GPT_OSS, 116.8, 5.1, "output"),               # gpt-oss model card, table 1: 116.83, 5.13
    (configs.GLM_45, 355, 32, "output"),                   # GLM-4.5 report, table 1
    (configs.MINIMAX_M2, 230, 10, "none"),                 # MiniMax-M2 model card
    (configs.MINIMAX_01, 456, 45.9, "none"),               # MiniMax-01 report, abstract
    (configs.MAVERICK, 400, 17, "both"),                   # Llama 4 model card
    (configs.JAMBA, 52, 12, "both"),                       # Jamba paper, abstract
    (configs.QWEN15_MOE, 14.3, 2.7, "both"),               # Qwen1.5-MoE blog
    (configs.DEEPSEEK_V2_LITE, 15.7, 2.4, "output"),       # DeepSeek-V2 paper, appendix B
    (configs.KIMI_LINEAR, 48, 3, "output"),                # Kimi Linear report: 48 B, 3 B
    (configs.GEMMA2_9B, 9.24, 9.24, "output"),             # Gemma 2 report, table 2: 918 M and 8,324 M
], ids=lambda v: v["model_type"] if isinstance(v, dict) else "")  # fmt: skip
def test_the_published_figures_are_met(config: Config, total: float, active: float, counted: str) -> None:
    geometry = read(config)
    found = count(geometry)
    table = geometry.vocabulary * geometry.hidden
    extra = {"both": 0 if geometry.tied else table, "output": 0, "none": -table}[counted]
    assert found.total / 1e9 == pytest.approx(total, rel=0.025)
    assert (found.active + extra) / 1e9 == pytest.approx(active, rel=0.04)


def test_parts_add_up_and_mtp_heads_stand_apart() -> None:
    found = count(read(configs.DEEPSEEK_V3))
    assert sum(n for part, n in found.by_part if part != "mtp") == found.total
    assert found.of("mtp") / 1e9 == pytest.approx(11.5, rel=0.01)     # README_WEIGHTS.md of DeepSeek-V3: 11.5 B
    assert found.of("routed_experts") == 58 * 256 * 3 * 7168 * 2048
    assert found.of("shared_experts") == 58 * 3 * 7168 * 2048
    assert found.of("dense_ffn") == 3 * 3 * 7168 * 18_432


def test_a_tied_table_is_stored_once_and_multiplied() -> None:
    tied = count(read(configs.GEMMA2_9B))
    assert (tied.of("lm_head"), tied.of("embedding")) == (0, 256_000 * 3584)
    assert tied.active == tied.total
    apart = count(read({**configs.GEMMA2_9B, "tie_word_embeddings": True}))
    assert apart == tied
    assert count(read({**configs.GEMMA2_9B, "tie_word_embeddings": False})).total - tied.total == 256_000 * 3584


def test_layers_are_of_the_kinds_their_makers_say() -> None:
    kinds = {
        name: dict(Counter(layer.kind for layer in read(getattr(configs, name)).layers))
        for name in ("LLAMA_8B", "GEMMA3_4B", "GEMMA2_9B", "GPT_OSS", "DEEPSEEK_V3", "QWEN3_NEXT", "MINIMAX_01",
                     "JAMBA", "KIMI_LINEAR", "MAVERICK", "MISTRAL_7B", "MAMBA")
    }  # fmt: skip
    assert kinds == {
        "LLAMA_8B": {"full": 32}, "GEMMA3_4B": {"sliding": 29, "full": 5}, "GEMMA2_9B": {"sliding": 21, "full": 21},
        "GPT_OSS": {"sliding": 18, "full": 18}, "DEEPSEEK_V3": {"mla": 61}, "QWEN3_NEXT": {"linear": 36, "full": 12},
        "MINIMAX_01": {"linear": 70, "full": 10}, "JAMBA": {"linear": 28, "full": 4},
        "KIMI_LINEAR": {"linear": 20, "mla": 7}, "MAVERICK": {"sliding": 36, "full": 12},
        "MISTRAL_7B": {"sliding": 32}, "MAMBA": {"linear": 64},
    }  # fmt: skip


def nvfp4(geometry: Geometry) -> Geometry:
    return replace(geometry, quantization=Quantization("modelopt", (("", NVFP4),)))


def test_weight_bytes_are_those_of_the_formats() -> None:
    plain = read(configs.LLAMA_8B)
    assert weight_bytes(plain) == 2 * 8_030_261_248
    assert weight_bytes(replace(plain, dtype=FP32)) == 4 * 8_030_261_248
    matrices = sum(t.parameters_count for t in tensors(plain) if t.product and t.part != "lm_head")
    rest, scales = 8_030_261_248 - matrices, sum(4 for t in tensors(plain) if t.product and t.part != "lm_head")
    assert weight_bytes(nvfp4(plain)) == matrices * 4.5 / 8 + scales + rest * 2


def test_published_checkpoints_are_as_large_as_they_are() -> None:
    # gpt-oss-120b: 65.2 GB of safetensors (openai/gpt-oss-120b); 60.8 GiB in its model card.
    assert weight_bytes(read(configs.GPT_OSS)) / 2**30 == pytest.approx(60.8, rel=0.005)
    # DeepSeek-V3 in fp8 by block: 688.6 GB with its MTP head's own copies of two tables (3.7 GB).
    fp8 = weight_bytes(read(configs.DEEPSEEK_V3), mtp=True)
    assert fp8 / 1e9 == pytest.approx(688.6 - 3.7, rel=0.002)


def test_the_flop_of_a_token_are_two_for_each_active_parameter_that_is_multiplied() -> None:
    geometry = read(configs.LLAMA_8B)
    short, long = token_flop(geometry, 1), token_flop(geometry, 8001)
    assert short.weights_flop == long.weights_flop == pytest.approx(2 * count(geometry).active, rel=1e-4)
    assert long.attention_flop - short.attention_flop == 32 * 4 * 32 * 128 * 8000
    assert long.flop == long.weights_flop + long.attention_flop


def test_a_windows_attention_does_not_grow_and_an_absorbed_one_is_wider() -> None:
    mistral, deepseek = read(configs.MISTRAL_7B), read(configs.DEEPSEEK_V3)
    assert token_flop(mistral, 4096) == token_flop(mistral, 100_000)
    assert token_flop(mistral, 4095) != token_flop(mistral, 4096)
    plain, absorbed = (token_flop(deepseek, 1000, absorbed=a).attention_flop for a in (False, True))
    assert absorbed / plain == (576 + 512) / (192 + 128)
    assert token_flop(read(configs.MAMBA), 10) == token_flop(read(configs.MAMBA), 10**6)
