"""The mixer of each layer: attention of all kinds, and what replaces it in linear layers."""

from __future__ import annotations

from math import ceil

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config.keys import Keys
from pellucid.physics.geometry import Attention, Indexer, Linear, Mixer, Mla

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"


def attention(
    keys: Keys, qkv_bias: bool = False, o_bias: bool = False, qk_norm: bool = False, window: int | None = None
) -> Attention:
    """Grouped-query attention; as many KV heads as heads where the config names none."""
    heads = keys.count("num_attention_heads")
    width = keys.optional("head_dim") or keys.count("hidden_size") // heads
    kv_heads = keys.optional("num_key_value_heads") or heads
    if kv_heads > heads or heads % kv_heads:
        raise CannotAnswer(f"config.json: {heads} heads cannot share {kv_heads} KV heads evenly")
    return Attention(
        heads, kv_heads, width, width, window, rotary_dim=_rotary(keys, width), qkv_bias=qkv_bias, o_bias=o_bias,
        qk_norm="head" if qk_norm else "none",
    )  # fmt: skip


def _rotary(keys: Keys, width: int) -> int:
    if (rotary := keys.optional("rotary_dim")) is not None:
        return rotary
    factor = keys.values.get("partial_rotary_factor")
    for name in ("rope_parameters", "rope_scaling"):
        inner = keys.values.get(name)
        if factor is None and isinstance(inner, dict):
            factor = inner.get("partial_rotary_factor")
    return int(width * float(1 if factor is None else factor))


def window_of(keys: Keys, index: int, pattern: int | None = None) -> int | None:
    """The window of a layer; None where it sees all. `layer_types` counts; else each `pattern`th layer is full."""
    window = keys.optional("sliding_window")
    types = layer_types(keys)
    if types:
        return _of_type(keys, types[index])
    if pattern is None or window is None:
        return window
    return None if (index + 1) % pattern == 0 else window


def _of_type(keys: Keys, kind: str) -> int | None:
    if kind == FULL:
        return None
    if kind == SLIDING:
        return keys.count("sliding_window")
    if kind == CHUNKED:
        return keys.count("attention_chunk_size")
    raise CannotAnswer(f"config.json of model_type {keys.model_type!r}: layer type {kind!r} is not known")


def layer_types(keys: Keys) -> list[str]:
    """One for each layer, or none at all. Raises CannotAnswer where the list is too short."""
    types = [str(kind) for kind in keys.entries("layer_types")]
    if types and len(types) < keys.layers_count:
        raise CannotAnswer(f"config.json: {len(types)} layer_types for {keys.layers_count} layers")
    return types


def mla(keys: Keys) -> Mla:
    """DeepSeek-V2 and what followed it. Sparse attention where the config has an indexer."""
    indexer = None
    if keys.has("index_topk"):
        indexer = Indexer(keys.count("index_n_heads"), keys.count("index_head_dim"), keys.count("index_topk"))
    return Mla(
        keys.count("num_attention_heads"), keys.optional("q_lora_rank") or None, keys.count("kv_lora_rank"),
        keys.count("qk_nope_head_dim"), keys.count("qk_rope_head_dim"), keys.count("v_head_dim"), indexer,
        keys.flag("attention_bias"),
    )  # fmt: skip


def gated_delta_or_full(keys: Keys, index: int) -> Mixer:
    """Qwen3-Next, Qwen3.5: gated delta net, and gated attention in each fourth layer."""
    types = layer_types(keys)
    full = types[index] == FULL if types else (index + 1) % keys.count("full_attention_interval") == 0
    if full:
        plain = attention(keys, qk_norm=True)
        return Attention(
            plain.heads_count, plain.kv_heads_count, plain.key_dim, plain.value_dim, rotary_dim=plain.rotary_dim,
            qk_norm="head", gate=keys.flag("attn_output_gate", absent=True),
        )  # fmt: skip
    return Linear(
        "gated_delta", keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads"),
        keys.count("linear_key_head_dim"), keys.count("linear_value_head_dim"), keys.count("linear_conv_kernel_dim"),
    )  # fmt: skip


def kda_or_mla(keys: Keys, index: int) -> Mixer:
    """Kimi Linear: its lists count layers from 1."""
    inner = keys.under("linear_attn_config")
    if index + 1 in inner.entries("full_attn_layers"):
        return mla(keys)
    if index + 1 not in inner.entries("kda_layers"):
        raise CannotAnswer(f"config.json: layer {index + 1} is in neither kda_layers nor full_attn_layers")
    heads, width = inner.count("num_heads"), inner.count("head_dim")
    return Linear("kda", heads, heads, width, width, inner.count("short_conv_kernel_size"))


def lightning_or_full(keys: Keys, index: int) -> Mixer:
    """MiniMax-Text-01: 1 in attn_type_list is attention with a softmax, 0 without."""
    plain = attention(keys)
    types, kinds = keys.entries("attn_type_list"), layer_types(keys)
    if not types and not kinds:
        raise CannotAnswer("config.json has neither attn_type_list nor layer_types: linear layers cannot be told")
    if (types[index] == 1) if types else (kinds[index] == FULL):
        return plain
    return Linear("lightning", plain.heads_count, plain.heads_count, plain.key_dim, plain.value_dim)


def jamba(keys: Keys, index: int) -> Mixer:
    """Attention in each attn_layer_period'th layer from the offset on, else Mamba."""
    if index % keys.count("attn_layer_period") == keys.count("attn_layer_offset"):
        plain = attention(keys)
        return Attention(plain.heads_count, plain.kv_heads_count, plain.key_dim, plain.value_dim)    # no positions
    hidden = keys.count("hidden_size")
    rank = keys.values.get("mamba_dt_rank")
    return Linear(
        "mamba1", 1, keys.count("mamba_expand") * hidden, keys.count("mamba_d_state"), 1, keys.count("mamba_d_conv"),
        rank if isinstance(rank, int) else ceil(hidden / 16), inner_norms=True,
    )  # fmt: skip


def mamba(keys: Keys, _: int) -> Mixer:
    hidden = keys.count("hidden_size", "d_model")
    inner = keys.optional("intermediate_size") or keys.count("expand") * hidden
    rank = keys.values.get("time_step_rank")
    return Linear(
        "mamba1", 1, inner, keys.count("state_size"), 1, keys.count("conv_kernel"),
        rank if isinstance(rank, int) else ceil(hidden / 16),
    )  # fmt: skip
