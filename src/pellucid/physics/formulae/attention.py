"""Attention: shapes → Work.

    decode(Heads(32, 8, 128, 128), contexts=[4096] * 32, page_tokens=16).moved_bytes   ≈ 537 MB
    prefill(Heads(32, 8, 128, 128), tokens=4096, context_tokens=4096).flop             ≈ 137 GFLOP

Formulae: counting pairs of a query and a key that it may see. FlashAttention's scripts use half a square for causal
attention, which is 1 / S less. Softmax costs one exponential a pair and head, and runs beside the matrix units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pellucid.physics.formats import BF16, Format, Precision
from pellucid.physics.work import Work


@dataclass(frozen=True, slots=True)
class Heads:
    """Query and KV heads on one device, with the widths of keys and values."""

    count: int
    kv_count: int
    key_dim: int
    value_dim: int

    @property
    def pair_flop(self) -> int:
        """Of one pair, all heads: q·k and p·v."""
        return 2 * self.count * (self.key_dim + self.value_dim)

    @property
    def kv_elements(self) -> int:
        """Of one cached token."""
        return self.kv_count * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Storage:
    """Formats of the activations and of the cache, and what the products run in."""

    activations: Format = BF16
    cache: Format = BF16
    precision: Precision = "bf16"


PLAIN = Storage()


def causal_pairs(tokens: int, context_tokens: int, window_tokens: int | None = None) -> int:
    """Pairs (query, key) of the last `tokens` of `context_tokens` positions, aligned bottom right.

    With a window W each query sees itself and the W − 1 positions before. Raises ValueError where tokens > context.
    """
    if not 0 <= tokens <= context_tokens:
        raise ValueError(f"{tokens} queries at the end of {context_tokens} positions: more queries than positions")
    first = context_tokens - tokens + 1            # keys that the first query sees
    if window_tokens is None or context_tokens <= window_tokens:
        return tokens * context_tokens - tokens * (tokens - 1) // 2
    short = max(0, min(tokens, window_tokens - first + 1))     # queries that see fewer than a window, or just one
    return short * first + short * (short - 1) // 2 + (tokens - short) * window_tokens


def chunked_pairs(tokens: int, context_tokens: int, chunk_tokens: int) -> int:
    """As causal_pairs, where a query sees only what begins at the last multiple of `chunk_tokens` (Llama 4)."""
    return _within_chunks(context_tokens, chunk_tokens) - _within_chunks(context_tokens - tokens, chunk_tokens)


def _within_chunks(positions: int, chunk: int) -> int:
    whole, rest = divmod(positions, chunk)
    return whole * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2


def prefill(
    heads: Heads, tokens: int, context_tokens: int, window_tokens: int | None = None, storage: Storage = PLAIN,
    causal: bool = True,
) -> Work:  # fmt: skip
    """One request: `tokens` new queries at the end of `context_tokens` positions (those before are cached).

    flop = 2·Hq·P·(Dqk + Dv); exps = Hq·P; bytes = q and o once, keys and values that any query sees once.
    """
    pairs = causal_pairs(tokens, context_tokens, window_tokens) if causal else tokens * context_tokens
    seen = context_tokens if window_tokens is None else min(context_tokens, tokens + window_tokens - 1)
    queries = heads.count * tokens * (heads.key_dim + heads.value_dim) * storage.activations.element_bytes
    cached = heads.kv_elements * seen * storage.cache.element_bytes
    return Work.of(storage.precision, heads.pair_flop * pairs, queries + cached, heads.count * pairs)


def decode(
    heads: Heads, contexts: Sequence[int], page_tokens: int = 16, splits_count: int = 1, storage: Storage = PLAIN
) -> Work:
    """One query for each of the `contexts` (positions seen, the new one in them), paged.

    flop = 2·Hq·S·(Dqk + Dv); bytes = S·Hkv·(Dqk + Dv) cached, q and o, 4 for each page's address, and where the
    context is cut in n > 1 splits, partial results written and read in fp32: 2·4·Hq·n·(Dv + 2).
    """
    seen = sum(contexts)
    cached = heads.kv_elements * seen * storage.cache.element_bytes
    queries = len(contexts) * heads.count * (heads.key_dim + heads.value_dim) * storage.activations.element_bytes
    pages = 4 * sum(ceil(context / page_tokens) for context in contexts)
    partial = 8 * len(contexts) * heads.count * splits_count * (heads.value_dim + 2) if splits_count > 1 else 0
    return Work.of(storage.precision, heads.pair_flop * seen, cached + queries + pages + partial, heads.count * seen)


def tree(heads: Heads, context_tokens: int, depths: Sequence[int], storage: Storage = PLAIN) -> Work:
    """Verifies a tree of drafted tokens of one request in one pass.

    `depths`: for each of the T nodes, the nodes of its path that it sees, itself in it; a chain is 1, 2, … T.
    flop = 2·Hq·(Dqk + Dv)·(T·S + Σ depth); bytes = cache once, q, o and new keys and values, a mask of T² bits.
    """
    nodes = len(depths)
    pairs = nodes * context_tokens + sum(depths)
    cached = heads.kv_elements * context_tokens * storage.cache.element_bytes
    new = nodes * (heads.kv_elements + heads.count * (heads.key_dim + heads.value_dim))
    moved = cached + new * storage.activations.element_bytes + nodes * nodes / 8
    return Work.of(storage.precision, heads.pair_flop * pairs, moved, heads.count * pairs)


def mla_decode(
    heads_count: int, contexts: Sequence[int], latent_dim: int = 512, rope_dim: int = 64, queries_count: int = 1,
    storage: Storage = PLAIN,
) -> Work:  # fmt: skip
    """Multi-head latent attention with the up-projections absorbed in queries and outputs (DeepSeek-V2, §2.1).

    dk = latent + rope, dv = latent. flop = 2·h·sq·S·(dk + dv); bytes = S·dk, shared by all heads and by keys and
    values, plus q and o. A cached token costs the same however many heads read it.
    """
    key_dim = latent_dim + rope_dim
    seen = sum(contexts)
    cached = seen * key_dim * storage.cache.element_bytes
    io_bytes = len(contexts) * queries_count * heads_count * (key_dim + latent_dim) * storage.activations.element_bytes
    pairs = heads_count * queries_count * seen
    return Work.of(storage.precision, 2.0 * pairs * (key_dim + latent_dim), cached + io_bytes, pairs)
