"""Linear attention: shapes → Work. What grows in attention is a state of fixed size here.

    recurrence(QWEN3_NEXT, Part(requests=64, tokens=64)).moved_bytes      ≈ 268 MB: states read and written, 2 MiB each
    convolution(QWEN3_NEXT, Part(requests=64, tokens=64)).moved_bytes     ≈ 8.4 MB

State S of a value head, key_dim × value_dim (arXiv:2412.06464, gated delta net; arXiv:2312.00752, selective scan):

    S ← decay · S + k (v − Sᵀk)ᵀ · β        o = Sᵀ q       7 flop an element: decay 1, Sᵀk 2, outer product 2, Sᵀq 2
    S ← decay · S + k vᵀ                    o = Sᵀ q       5 without the delta rule
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.physics.cache import PLAIN, CacheFormat
from pellucid.physics.formats import BF16, Format
from pellucid.physics.geometry import Linear
from pellucid.physics.work import Work


@dataclass(frozen=True, slots=True)
class Part:
    """Of a step: requests whose states are read and written, and their new tokens."""

    requests: int
    tokens: int
    chunked_tokens: int = 0         # of them, those that run in chunks on the matrix units: prompts


def recurrence(a: Linear, part: Part, activations: Format = BF16, cache: CacheFormat = PLAIN) -> Work:
    """States once in and once out for each request; queries, keys, values in and outputs out for each token. Prompts
    run in chunks on the matrix units, decodes token by token on the vector units."""
    io_elements = 2 * a.key_heads_count * a.key_dim + 2 * a.value_heads_count * a.value_dim
    if a.rule == "mamba1":          # B and C are shared by all channels
        io_elements = 2 * a.value_heads_count * a.value_dim + 2 * a.key_dim
    states = 2 * part.requests * a.state_elements * cache.state.element_bytes
    moved = part.tokens * io_elements * activations.element_bytes + states
    chunks = Work.of(activations.compute, float(a.pair_flop * part.chunked_tokens), 0.0)
    return chunks + Work.of("fp32", float(a.pair_flop * (part.tokens - part.chunked_tokens)), moved)


def convolution(a: Linear, part: Part, activations: Format = BF16, cache: CacheFormat = PLAIN) -> Work:
    """The short convolution: each channel of a token in and out, and the last positions of each request in and out."""
    moved = 2 * part.tokens * a.conv_channels * activations.element_bytes + past_bytes(a, part, cache)
    return Work.of("fp32", 2.0 * part.tokens * a.conv_channels * a.conv_width, moved)


def past_bytes(a: Linear, part: Part, cache: CacheFormat = PLAIN) -> float:
    """Positions that the convolution looks back at, read and written."""
    return 2 * part.requests * a.conv_channels * (a.conv_width - 1) * cache.conv.element_bytes
