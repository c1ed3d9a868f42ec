"""Steps made from weights that are known, to see whether a fit finds them."""

from __future__ import annotations

import numpy as np

from pellucid.sim.step.seen import Floats, Steps


def steps(count: int, seed: int = 0, noise: float = 0.0) -> Steps:
    """5 ms a step, 100 µs a request, 20 µs a token, 0.1 µs a position that decodes see; every tenth has a chunk."""
    pick = np.random.default_rng(seed)
    decodes = pick.integers(1, 40, count).astype(float)
    context = decodes * pick.integers(10, 900, count).astype(float)
    chunks = (np.arange(count) % 10 == 0).astype(float)
    chunk_tokens = chunks * pick.integers(20, 400, count)
    tokens = decodes + chunk_tokens
    took = 5e6 + 1e5 * (decodes + chunks) + 2e4 * tokens + 100 * context
    took *= 1 + noise * pick.standard_normal(count)
    return Steps(np.zeros(count), took, tokens, decodes, context, chunks, chunk_tokens,
                 chunk_tokens, chunk_tokens * (chunk_tokens + 1) / 2)  # fmt: skip


def relative(said: Floats, true: Floats) -> float:
    return float(np.abs(said / true - 1).max())
