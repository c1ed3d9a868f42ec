"""Memory that a step needs beside weights and cache, at least: shapes → bytes.

    activation_bytes(geometry, tokens=2048, rows=16)      the larger of the widest layer's and the logits'

A floor: what has to be there at one moment, whatever is fused. Engines take more (workspaces, graphs, fragments).
"""

from __future__ import annotations

from pellucid.physics.geometry import Attention, Dense, Geometry, Layer, Linear, Mla, Moe

LOGIT_BYTES = 4        # sampled from in fp32


def activation_bytes(geometry: Geometry, tokens: int, rows: int, tp: int = 1, element_bytes: float = 2.0) -> float:
    """The residual and a layer's input, with the widest product of a layer beside them; or, when the layers are done,
    the residual with `rows` rows of logits. On one of `tp` ranks that share each matrix."""
    residual = tokens * geometry.hidden * element_bytes
    widest = max(max(_mixer_width(layer), _ffn_width(layer)) for layer in geometry.layers)
    return max(2 * residual + tokens * widest * element_bytes / tp,
               residual + rows * geometry.vocabulary * LOGIT_BYTES / tp)  # fmt: skip


def _mixer_width(layer: Layer) -> float:
    """Elements of a token's queries, keys and values together, before attention has used them up."""
    mixer = layer.mixer
    match mixer:
        case Attention():
            return mixer.heads_count * mixer.key_dim + mixer.kv_heads_count * (mixer.key_dim + mixer.value_dim)
        case Mla():
            return mixer.heads_count * (mixer.nope_dim + mixer.rope_dim) + mixer.kv_rank + mixer.rope_dim
        case Linear():
            return mixer.value_heads_count * mixer.value_dim + 2 * mixer.key_heads_count * mixer.key_dim


def _ffn_width(layer: Layer) -> float:
    """Gate and up beside what is made of them: three times the width of all experts that a token goes through."""
    ffn = layer.ffn
    match ffn:
        case Dense():
            return ffn.width * (3 if ffn.gated else 2)
        case Moe():
            return ffn.active_count * ffn.width * (3 if ffn.gated else 2)
        case None:
            return 0
