"""How many parameters a model has, how many a token uses, and how many bytes they are.

    count(geometry)        == Parameters(by_part=(("attention", 1_342_177_280), …), total=8_030_261_248, active=…)
    weight_bytes(geometry) == 16_060_522_496

Active: what one token is multiplied by. The output matrix counts, the embedding does not: one row of it is looked up
(gpt-oss counts so, too). MTP heads are counted apart and are in neither sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from pellucid.physics.formats import FP32, Format
from pellucid.physics.geometry import Geometry, Linear, Mixer, Mla
from pellucid.physics.tensors import Part, Tensor, tensors


@dataclass(frozen=True, slots=True)
class Parameters:
    by_part: tuple[tuple[Part, int], ...]
    total: int                     # without MTP heads
    active: int                    # without MTP heads

    def of(self, part: Part) -> int:
        return dict(self.by_part)[part]


@lru_cache(maxsize=64)
def count(geometry: Geometry) -> Parameters:
    """Counts of the language model, biases and norms in them."""
    parts = dict.fromkeys(get_args(Part), 0)
    active = 0
    for tensor in tensors(geometry):
        parts[tensor.part] += tensor.parameters_count
        active += 0 if tensor.part == "mtp" else tensor.active_count
    return Parameters(tuple(parts.items()), sum(parts.values()) - parts["mtp"], active)


def stored_format(geometry: Geometry, tensor: Tensor) -> Format:
    """Of a tensor in the checkpoint. Vectors, routers, embeddings and what joins an MTP head stay plain."""
    if tensor.part == "router" and not tensor.product:
        return FP32                                    # correction biases are kept in fp32
    plain = tensor.part in ("router", "embedding", "norm") or tensor.product in ("", "eh")
    return geometry.dtype if plain else geometry.quantization.format_of(tensor.module) or geometry.dtype


def tensor_bytes(geometry: Geometry, tensor: Tensor) -> float:
    return stored_format(geometry, tensor).stored_bytes(tensor.rows, tensor.columns) * tensor.copies


def weight_bytes(geometry: Geometry, mtp: bool = False) -> float:
    """Bytes of all weights in the checkpoint's formats, scales in them; MTP heads where asked for."""
    found = tensors(geometry)
    return sum(tensor_bytes(geometry, t) for t in found if mtp or t.part != "mtp")


@dataclass(frozen=True, slots=True)
class TokenFlop:
    """Of one token: what its weights take, and what its attention takes at a given context."""

    weights_flop: float
    attention_flop: float

    @property
    def flop(self) -> float:
        return self.weights_flop + self.attention_flop


def token_flop(geometry: Geometry, context_tokens: int, absorbed: bool = False) -> TokenFlop:
    """One token that sees `context_tokens` positions, itself in them.

    A decoded token has all of its context; the tokens of a prefill have half of it on average (`step` counts them
    exactly). `absorbed`: latent attention as it is decoded, over the latent vectors instead of a head's own keys.
    """
    matrices = sum(t.active_count for t in tensors(geometry) if t.product and t.part != "mtp")
    attention = sum(_mixer_flop(layer.mixer, context_tokens, absorbed) for layer in geometry.layers)
    return TokenFlop(2.0 * matrices, attention)


def _mixer_flop(mixer: Mixer, context_tokens: int, absorbed: bool) -> float:
    if isinstance(mixer, Linear):
        return float(mixer.pair_flop)
    if isinstance(mixer, Mla):
        seen = min(context_tokens, mixer.indexer.top_tokens) if mixer.indexer else context_tokens
        width = 2 * mixer.kv_rank + mixer.rope_dim if absorbed else mixer.nope_dim + mixer.rope_dim + mixer.value_dim
        return 2.0 * mixer.heads_count * seen * width
    seen = context_tokens if mixer.window_tokens is None else min(mixer.window_tokens, context_tokens)
    return 2.0 * mixer.heads_count * seen * (mixer.key_dim + mixer.value_dim)
