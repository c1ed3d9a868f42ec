"""The models of the runs: a name → the geometry that its config.json gives.

    MODELS["qwen3-8b"].hidden      == 4096

A run's own config.json is not among what was published with it, or the model had the shapes of one and random weights.
"""

from __future__ import annotations

from pellucid.physics.config.read import read
from pellucid.physics.geometry import Geometry
from tests.physics.configs import DEEPSEEK_V2_LITE, GPT_OSS, KIMI_K2, LLAMA_8B, QWEN3_06B, QWEN3_8B, QWEN3_30B

# As such checkpoints are usually made, this one's config.json is not there: attention and output matrix stay in bf16.
NVFP4_EXPERTS = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*self_attn*"]}
MODELS: dict[str, Geometry] = {
    "qwen3-0.6b": read(QWEN3_06B), "qwen3-8b": read(QWEN3_8B), "qwen3-30b-a3b": read(QWEN3_30B),
    "deepseek-v2-lite": read(DEEPSEEK_V2_LITE), "gpt-oss-120b": read(GPT_OSS), "llama-3.1-8b": read(LLAMA_8B),
    "kimi-k2.5-nvfp4": read({**KIMI_K2, "quantization_config": NVFP4_EXPERTS}),
}  # fmt: skip
