"""Configurations of the small models in the recordings, and those that several tests look at as geometries."""

from __future__ import annotations

from pellucid.catalog.devices.gpus import devices
from pellucid.catalog.devices.seen import seen
from pellucid.physics.cache import PLAIN, CacheFormat
from pellucid.physics.ceilings import peak_ceilings
from pellucid.physics.geometry import Geometry
from pellucid.sim.paper.fit import Span, room
from pellucid.sim.paper.outlook import Setting
from pellucid.sim.paper.placement import Placement, Way
from pellucid.sim.paper.speed import Model, Traffic
from tests.physics.configs import DEEPSEEK_V2_LITE, QWEN3_06B, QWEN3_8B, QWEN3_30B, Config

GEMMA3_270M: Config = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "dtype": "bfloat16", "vocab_size": 262_144,
    "num_hidden_layers": 18, "hidden_size": 640, "intermediate_size": 2048, "num_attention_heads": 4,
    "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512, "tie_word_embeddings": True,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
}  # fmt: skip
TINY: Config = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16", "vocab_size": 4096,
    "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64,
}  # fmt: skip
SHALLOW = {**TINY, "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1, "num_key_value_heads": 1}
SKEWED: Config = {
    **TINY, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "moe_intermediate_size": 128,
    "num_local_experts": 16, "num_experts_per_tok": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
# The experts of Qwen3-Next in plain layers.
MANY_EXPERTS: Config = {
    **QWEN3_30B, "intermediate_size": 5120, "num_hidden_layers": 12, "num_attention_heads": 16,
    "num_key_value_heads": 2, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
}  # fmt: skip
# Mixtral's experts in four layers.
WIDE_EXPERTS: Config = {
    **SKEWED, "hidden_size": 4096, "intermediate_size": 14_336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "moe_intermediate_size": 14_336, "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
# By the end of the name that a recording has.
RECORDED: dict[str, Config] = {
    "gemma-3-270m": GEMMA3_270M, "tiny-dense": TINY, "tiny-shallow": SHALLOW, "tiny-skewed": SKEWED,
    "qwen3-0.6b-shape": QWEN3_06B, "deepseek-v2-lite-shape": DEEPSEEK_V2_LITE,
    "qwen3-8b-shape": QWEN3_8B, "qwen3-30b-a3b-shape": QWEN3_30B, "many-experts-shape": MANY_EXPERTS,
    "qwen3-0.6b-vocab4k": {**QWEN3_06B, "vocab_size": 4096}, "experts-8x14336": WIDE_EXPERTS,
}  # fmt: skip


def on_h200(geometry: Geometry, placement: Placement, cache: CacheFormat = PLAIN) -> Model:
    ceilings = peak_ceilings(devices()["h200"])
    return Model(geometry, Way(placement, 8, cache, ceilings.precisions), ceilings)


def setting(geometry: Geometry, traffic: Traffic, gpu: str = "h200", reserve: Span = Span(1e9, 1e9)) -> Setting:  # noqa: B008
    device = devices()[gpu]
    space = room(device, 0.9)
    assert space is not None
    domain = int(device.cells["domain_gpus_count"].value or 1)
    return Setting(geometry, PLAIN, device, domain, space, reserve, 16, 8192, traffic, seen())
