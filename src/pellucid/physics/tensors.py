"""A geometry's matrices and vectors: the one place that parameters, weight bytes and multiplications come from.

    tensors(geometry)[0]   == Tensor("embedding", "embed_tokens", rows=128256, columns=4096, …)

    Tensor.rows × Tensor.columns   as stored: outputs × inputs; columns = 1 is a vector
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from pellucid.physics.geometry import Attention, Dense, Geometry, Layer, Linear, Mla, Moe, Names

Part = Literal[
    "attention", "dense_ffn", "routed_experts", "shared_experts", "router", "embedding", "lm_head", "norm", "mtp"
]
Split = Literal["rows", "columns", "copies", "none", "kv_heads"]


@dataclass(frozen=True, slots=True)
class Tensor:
    part: Part
    module: str                    # as the checkpoint names it
    rows: int
    columns: int
    split: Split = "none"          # what tensor parallelism cuts; kv_heads cannot be cut further than there are heads
    product: str = ""              # tensors of one layer with the same product are multiplied at once; "" is no matrix
    copies: int = 1                # as many alike, such as experts
    active: int = 1                # of them, those that one token uses
    layer: int | None = None
    kv_heads_count: int = 0        # for split = "kv_heads"

    @property
    def parameters_count(self) -> int:
        return self.rows * self.columns * self.copies

    @property
    def active_count(self) -> int:
        return self.rows * self.columns * self.active


@lru_cache(maxsize=64)
def tensors(geometry: Geometry) -> tuple[Tensor, ...]:
    """All of them. MTP heads come last, as part "mtp"; what they share with the model is not listed again."""
    return tuple(_all(geometry))


def _all(geometry: Geometry) -> Iterator[Tensor]:
    hidden, vocabulary = geometry.hidden, geometry.vocabulary
    yield Tensor("embedding", "embed_tokens", vocabulary, hidden, "rows", active=0)
    for index, layer in enumerate(geometry.layers):
        yield from layer_tensors(geometry, layer, index)
    yield Tensor("norm", "norm", hidden, 1)
    # A tied table is stored once, and multiplied all the same.
    yield Tensor("lm_head", "lm_head", vocabulary, hidden, "rows", "lm_head", copies=0 if geometry.tied else 1)
    for number, layer in enumerate(geometry.mtp_layers):
        index = len(geometry.layers) + number
        inside = [*layer_tensors(geometry, layer, index), *_mtp_extra(hidden, index)]
        yield from (replace(t, part="mtp") for t in inside)


def _mtp_extra(hidden: int, index: int) -> Iterator[Tensor]:
    """Joins a token's embedding to the state before: a matrix of 2H × H and three norms (DeepSeek-V3, §2.2)."""
    yield Tensor("mtp", f"layers.{index}.eh_proj", hidden, 2 * hidden, "none", "eh", layer=index)
    yield Tensor("mtp", f"layers.{index}.norms", 3 * hidden, 1, layer=index)


def layer_tensors(geometry: Geometry, layer: Layer, index: int) -> tuple[Tensor, ...]:
    """Of one layer: mixer, feed-forward, norms."""
    return _layer_tensors(geometry.hidden, geometry.names, layer, index)


@lru_cache(maxsize=4096)
def _layer_tensors(hidden: int, names: Names, layer: Layer, index: int) -> tuple[Tensor, ...]:
    return tuple(_of_layer(hidden, names, layer, index))


def _of_layer(hidden: int, names: Names, layer: Layer, index: int) -> Iterator[Tensor]:
    mixer = layer.mixer
    at = f"layers.{index}.{names.linear if isinstance(mixer, Linear) else names.mixer}"
    if isinstance(mixer, Attention):
        found = _attention(mixer, hidden, at)
    elif isinstance(mixer, Mla):
        found = _mla(mixer, hidden, at)
    else:
        found = _linear(mixer, hidden, at)
    for tensor in found:
        yield replace(tensor, layer=index)
    if isinstance(layer.ffn, Dense):
        ffn = _dense(layer.ffn, hidden, f"layers.{index}.{names.ffn}")
        yield from (replace(t, layer=index) for t in ffn)
    elif isinstance(layer.ffn, Moe):
        experts = _moe(layer.ffn, hidden, f"layers.{index}.{names.moe}", names.router)
        yield from (replace(t, layer=index) for t in experts)
    for number in range(layer.norms_count):
        yield Tensor("norm", f"layers.{index}.norm{number}", hidden, 1, layer=index)


def _attention(a: Attention, hidden: int, at: str) -> Iterator[Tensor]:
    q, k, v = a.heads_count * a.key_dim, a.kv_heads_count * a.key_dim, a.kv_heads_count * a.value_dim
    wide = q * (2 if a.gate else 1)
    kv = a.kv_heads_count
    yield Tensor("attention", f"{at}.q_proj", wide, hidden, "rows", "qkv")
    yield Tensor("attention", f"{at}.k_proj", k, hidden, "kv_heads", "qkv", kv_heads_count=kv)
    yield Tensor("attention", f"{at}.v_proj", v, hidden, "kv_heads", "qkv", kv_heads_count=kv)
    yield Tensor("attention", f"{at}.o_proj", hidden, a.heads_count * a.value_dim, "columns", "o")
    if a.qkv_bias:
        yield Tensor("attention", f"{at}.q_proj.bias", wide, 1, "rows")
        yield Tensor("attention", f"{at}.kv_proj.bias", k + v, 1, "kv_heads", kv_heads_count=kv)
    if a.o_bias:
        yield Tensor("attention", f"{at}.o_proj.bias", hidden, 1)
    if a.sinks:
        yield Tensor("attention", f"{at}.sinks", a.heads_count, 1, "rows")
    if a.qk_norm != "none":
        yield Tensor("norm", f"{at}.qk_norm", q + k if a.qk_norm == "all" else 2 * a.key_dim, 1)


def _mla(a: Mla, hidden: int, at: str) -> Iterator[Tensor]:
    query = a.heads_count * (a.nope_dim + a.rope_dim)
    if a.q_rank is None:
        yield Tensor("attention", f"{at}.q_proj", query, hidden, "rows", "q")
    else:
        yield Tensor("attention", f"{at}.q_a_proj", a.q_rank, hidden, "none", "qkv_a")
        yield Tensor("norm", f"{at}.q_a_layernorm", a.q_rank, 1)
        yield Tensor("attention", f"{at}.q_b_proj", query, a.q_rank, "rows", "q_b")
    latent = a.kv_rank + a.rope_dim
    yield Tensor("attention", f"{at}.kv_a_proj_with_mqa", latent, hidden, "none", "qkv_a")
    yield Tensor("norm", f"{at}.kv_a_layernorm", a.kv_rank, 1)
    up = a.heads_count * (a.nope_dim + a.value_dim)
    yield Tensor("attention", f"{at}.kv_b_proj", up, a.kv_rank, "rows", "kv_b")
    yield Tensor("attention", f"{at}.o_proj", hidden, a.heads_count * a.value_dim, "columns", "o")
    if a.bias:
        yield Tensor("attention", f"{at}.bias", (a.q_rank or 0) + latent + hidden, 1)
    if a.indexer is not None:
        i = a.indexer
        yield Tensor("attention", f"{at}.indexer.wq_b", i.heads_count * i.dim, a.q_rank or hidden, "none", "index_q")
        yield Tensor("attention", f"{at}.indexer.wk", i.dim, hidden, "none", "index_k")
        yield Tensor("attention", f"{at}.indexer.weights_proj", i.heads_count, hidden, "none", "index_k")
        yield Tensor("norm", f"{at}.indexer.k_norm", 2 * i.dim, 1)


def _linear(a: Linear, hidden: int, at: str) -> Iterator[Tensor]:
    keys, values = a.key_heads_count * a.key_dim, a.value_heads_count * a.value_dim
    if a.rule == "gated_delta":
        yield Tensor("attention", f"{at}.in_proj_qkvz", 2 * keys + 2 * values, hidden, "rows", "in")
        yield Tensor("attention", f"{at}.in_proj_ba", 2 * a.value_heads_count, hidden, "rows", "in")
        yield Tensor("attention", f"{at}.decay", 2 * a.value_heads_count, 1, "rows")
        yield Tensor("norm", f"{at}.norm", a.value_dim, 1)
    elif a.rule == "kda":
        yield Tensor("attention", f"{at}.qkv_proj", 2 * keys + values, hidden, "rows", "in")
        yield Tensor("attention", f"{at}.b_proj", a.value_heads_count, hidden, "rows", "in")
        for name, wide in (("f", keys), ("g", values)):     # decay and output gate, each through a head's width
            yield Tensor("attention", f"{at}.{name}_a_proj", a.value_dim, hidden, "none", "in")
            yield Tensor("attention", f"{at}.{name}_b_proj", wide, a.value_dim, "rows", f"{name}_b")
        yield Tensor("attention", f"{at}.decay", a.value_heads_count + keys, 1, "rows")
        yield Tensor("norm", f"{at}.o_norm", a.value_dim, 1)
    elif a.rule == "lightning":
        yield Tensor("attention", f"{at}.qkv_proj", 2 * keys + values, hidden, "rows", "in")
        yield Tensor("attention", f"{at}.output_gate", values, hidden, "rows", "in")
        yield Tensor("norm", f"{at}.norm", values, 1)
    else:
        yield from _mamba(a, hidden, at)
    if a.conv_channels:
        width = a.conv_width + (1 if a.rule == "mamba1" else 0)      # Mamba's convolution has a bias
        yield Tensor("attention", f"{at}.conv1d", a.conv_channels, width, "rows")
    yield Tensor("attention", f"{at}.out_proj", hidden, values, "columns", "out")


def _mamba(a: Linear, hidden: int, at: str) -> Iterator[Tensor]:
    """Mamba-1: values are the inner channels, key_dim the state's size."""
    inner, state = a.value_heads_count * a.value_dim, a.key_dim
    yield Tensor("attention", f"{at}.in_proj", 2 * inner, hidden, "rows", "in")
    yield Tensor("attention", f"{at}.x_proj", a.rank + 2 * state, inner, "columns", "x")
    yield Tensor("attention", f"{at}.dt_proj", inner, a.rank + 1, "rows", "dt")
    yield Tensor("attention", f"{at}.A_log", inner, state + 1, "rows")     # and D
    if a.inner_norms:
        yield Tensor("norm", f"{at}.inner_norms", a.rank + 2 * state, 1)


def _dense(f: Dense, hidden: int, at: str) -> Iterator[Tensor]:
    for name in ("gate_proj", "up_proj") if f.gated else ("up_proj",):
        yield Tensor("dense_ffn", f"{at}.{name}", f.width, hidden, "rows", "gate_up")
    yield Tensor("dense_ffn", f"{at}.down_proj", hidden, f.width, "columns", "down")
    if f.bias:
        yield Tensor("dense_ffn", f"{at}.bias", (2 if f.gated else 1) * f.width + hidden, 1)


def _moe(f: Moe, hidden: int, at: str, router: str) -> Iterator[Tensor]:
    yield Tensor("router", f"{at}.{router}", f.experts_count, hidden, "none", "router")
    if f.router_bias:
        yield Tensor("router", f"{at}.{router}.bias", f.experts_count, 1)
    sides = ("gate_proj", "up_proj") if f.gated else ("up_proj",)
    routed = [(name, f.width, hidden) for name in sides] + [("down_proj", hidden, f.width)]
    for name, rows, columns in routed:
        yield Tensor("routed_experts", f"{at}.experts.0.{name}", rows, columns, "copies", "experts", f.experts_count,
                     f.active_count)  # fmt: skip
    if f.expert_bias:
        yield Tensor("routed_experts", f"{at}.experts.0.bias", len(sides) * f.width + hidden, 1, "copies", "",
                     f.experts_count, f.active_count)  # fmt: skip
    if f.shared_width:
        for name in sides:
            yield Tensor("shared_experts", f"{at}.shared_experts.{name}", f.shared_width, hidden, "rows", "shared_up")
        yield Tensor("shared_experts", f"{at}.shared_experts.down_proj", hidden, f.shared_width, "columns",
                     "shared_down")  # fmt: skip
        if f.shared_gate:
            yield Tensor("shared_experts", f"{at}.shared_expert_gate", 1, hidden, "none", "shared_up")
