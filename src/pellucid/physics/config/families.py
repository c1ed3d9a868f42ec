"""Families of models: which keys of a config.json mean what, by its model_type.

    FAMILIES["qwen3"].mixer(keys, 0)      Attention(…, qk_norm="head")

Sources: the modelling files of transformers (5.x) and, where a model brings its own code, the ones in its repository.
A model_type that is not here is refused: two families may use the same keys for different shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config import ffns, mixers
from pellucid.physics.config.keys import Keys
from pellucid.physics.geometry import USUAL, Attention, Ffn, Mixer, Names


@dataclass(frozen=True, slots=True)
class Family:
    mixer: Callable[[Keys, int], Mixer]
    ffn: Callable[[Keys, int], Ffn | None]
    norms_count: int = 2
    tied: bool = False             # where the config does not say
    names: Names = USUAL
    defaults: tuple[tuple[str, Any], ...] = ()   # of the family's class, which a config.json may leave out


def _llama(keys: Keys, _: int) -> Mixer:
    bias = keys.flag("attention_bias")
    return mixers.attention(keys, qkv_bias=bias, o_bias=bias)


def _mistral(keys: Keys, index: int) -> Mixer:
    return mixers.attention(keys, window=mixers.window_of(keys, index))


def _qwen_window(keys: Keys, index: int) -> int | None:
    """Only with use_sliding_window; then layer_types, or all from max_window_layers on."""
    if not keys.flag("use_sliding_window"):
        return None
    if not mixers.layer_types(keys) and index < keys.count("max_window_layers"):
        return None
    return mixers.window_of(keys, index)


def _qwen2(keys: Keys, index: int) -> Mixer:
    return mixers.attention(keys, qkv_bias=keys.flag("qkv_bias", absent=True), window=_qwen_window(keys, index))


def _qwen3(keys: Keys, index: int) -> Mixer:
    bias = keys.flag("attention_bias")
    return mixers.attention(keys, bias, bias, qk_norm=True, window=_qwen_window(keys, index))


def _gemma2(keys: Keys, index: int) -> Mixer:
    return mixers.attention(keys, window=mixers.window_of(keys, index, pattern=2))


def _gemma3(keys: Keys, index: int) -> Mixer:
    pattern = keys.optional("sliding_window_pattern", "_sliding_window_pattern")
    return mixers.attention(keys, qk_norm=True, window=mixers.window_of(keys, index, pattern or 6))


def _gpt_oss(keys: Keys, index: int) -> Mixer:
    """Windows in every other layer, the first one of them; biases; a sink for each head."""
    bias = keys.flag("attention_bias", absent=True)
    window = mixers.window_of(keys, index, pattern=2)
    found = mixers.attention(keys, bias, bias, window=window)
    return replace(found, sinks=True)


def _llama4(keys: Keys, index: int) -> Mixer:
    """Layers that rotate see a chunk; each fourth does not rotate and sees all."""
    rotates = keys.entries("no_rope_layers")
    step = keys.optional("no_rope_layer_interval") or 4
    local = bool(rotates[index]) if rotates else bool((index + 1) % step)
    window = keys.optional("attention_chunk_size") if local else None
    found = mixers.attention(keys, window=window)
    return replace(found, chunked=window is not None, rotary_dim=found.rotary_dim if local else 0)


def _glm4_moe(keys: Keys, _: int) -> Mixer:
    partial = keys.with_default("partial_rotary_factor", 0.5)
    return mixers.attention(partial, keys.flag("attention_bias"), qk_norm=keys.flag("use_qk_norm"))


def _minimax_m2(keys: Keys, _: int) -> Mixer:
    found: Attention = mixers.attention(keys)
    return replace(found, qk_norm="all" if keys.flag("use_qk_norm", absent=True) else "none")


def _mla(keys: Keys, _: int) -> Mixer:
    return mixers.mla(keys)


_BLOCK = Names(moe="block_sparse_moe", ffn="block_sparse_moe")
_FORWARD = Names(ffn="feed_forward", moe="feed_forward", router="router")
_LLAMA = Family(_llama, ffns.dense)
_DEEPSEEK = Family(_mla, ffns.deepseek)
_QWEN_NEXT = Family(mixers.gated_delta_or_full, ffns.qwen)
# transformers leaves out of a nested text_config what is the class's own default (configuration_gemma3.py).
_GEMMA3_DEFAULTS = (
    ("vocab_size", 262_208), ("num_attention_heads", 8), ("num_key_value_heads", 4), ("head_dim", 256),
    ("sliding_window", 4096),
)  # fmt: skip
_GEMMA3 = Family(_gemma3, ffns.dense, norms_count=4, tied=True, defaults=_GEMMA3_DEFAULTS)
_JAMBA = Family(mixers.jamba, ffns.jamba, names=replace(_FORWARD, linear="mamba"))

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA, "mistral": Family(_mistral, ffns.dense), "ministral3": Family(_mistral, ffns.dense),
    "mixtral": Family(_mistral, ffns.mixtral, names=_BLOCK),
    "qwen2": Family(_qwen2, ffns.dense), "qwen2_vl": Family(_qwen2, ffns.dense),
    "qwen2_vl_text": Family(_qwen2, ffns.dense), "qwen2_5_vl": Family(_qwen2, ffns.dense),
    "qwen2_5_vl_text": Family(_qwen2, ffns.dense), "qwen2_moe": Family(_qwen2, ffns.qwen),
    "qwen3": Family(_qwen3, ffns.dense), "qwen3_vl_text": Family(_qwen3, ffns.dense),
    "qwen3_moe": Family(_qwen3, ffns.qwen), "qwen3_vl_moe_text": Family(_qwen3, ffns.qwen),
    "qwen3_next": _QWEN_NEXT, "qwen3_5_moe_text": _QWEN_NEXT,
    "qwen3_5_text": Family(mixers.gated_delta_or_full, ffns.dense),
    "gemma": Family(_llama, ffns.dense, tied=True), "gemma2": Family(_gemma2, ffns.dense, norms_count=4, tied=True),
    "gemma3_text": _GEMMA3,
    "gpt_oss": Family(_gpt_oss, ffns.gpt_oss, names=Names(router="router")),
    "llama4_text": Family(_llama4, ffns.llama4, names=_FORWARD),
    "glm4_moe": Family(_glm4_moe, ffns.deepseek), "minimax_m2": Family(_minimax_m2, ffns.minimax_m2, names=_BLOCK),
    "deepseek_v2": _DEEPSEEK, "deepseek_v3": _DEEPSEEK, "deepseek_v32": _DEEPSEEK, "kimi_k2": _DEEPSEEK,
    "kimi_k25": _DEEPSEEK, "glm4_moe_lite": _DEEPSEEK, "glm_moe_dsa": _DEEPSEEK,
    "kimi_linear": Family(mixers.kda_or_mla, ffns.deepseek, names=replace(_BLOCK, linear="self_attn")),
    "minimax_text_01": Family(mixers.lightning_or_full, ffns.mixtral, names=replace(_BLOCK, linear="self_attn")),
    "jamba": _JAMBA, "mamba": Family(mixers.mamba, ffns.none, norms_count=1, tied=True),
}  # fmt: skip

# Where one model_type was used for two shapes, or names none, the architecture decides.
BY_ARCHITECTURE = {
    "MiniMaxM2ForCausalLM": "minimax_m2", "MiniMaxText01ForCausalLM": "minimax_text_01",
    "MiniMaxM1ForCausalLM": "minimax_text_01", "MiniMaxForCausalLM": "minimax_text_01",
    "KimiLinearForCausalLM": "kimi_linear", "DeepseekV32ForCausalLM": "deepseek_v32",
}  # fmt: skip

# Keys that change the shape in ways that no family here has. Where they say so, the config is refused.
STRANGE = (
    "num_kv_shared_layers", "hidden_size_per_layer_input", "block_configs", "routed_expert_hidden_size",
    "attn_res_block_size", "hc_mult", "cross_attention_layers", "no_bias_terms", "zero_expert_num", "moe_latent_size",
    "mla_use_output_gate", "num_memory_blocks",
)  # fmt: skip


def family_of(keys: Keys, architecture: str) -> Family:
    """Raises CannotAnswer that names the type, and what else of the config is not known."""
    name = BY_ARCHITECTURE.get(architecture, keys.model_type)
    if name not in FAMILIES:
        raise CannotAnswer(
            f"config.json: model_type {keys.model_type!r} (architecture {architecture or 'not named'}) is not known, "
            f"so parameters, cache and flop cannot be told. Known are {', '.join(sorted(FAMILIES))}"
        )
    strange = [key for key in STRANGE if keys.values.get(key)]
    if strange:
        raise CannotAnswer(f"config.json of model_type {keys.model_type!r} has {', '.join(strange)}: not known here")
    return FAMILIES[name]
