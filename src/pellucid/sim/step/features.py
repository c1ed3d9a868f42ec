"""What a step's time is made of: columns of a linear model, all of which can only add time.

    columns(tokens=2048, requests=9, …)      one row for each step, one column for each of NAMES

Tokens come in three ways, so that the model may bend: what grows with them, what stops growing at a knot (weights that
are read once, a small matrix product that wastes the units) and what begins at a knot (bandwidth that turns into
compute). Attention is by what has to be read in decodes, and by pairs in chunks. A step with none right before it
waits for what the others find at work.
"""

from __future__ import annotations

import numpy as np

from pellucid.sim.step.seen import Floats, Steps

KNOTS = (4, 16, 64, 256, 1024, 4096)
NAMES = (
    "step", "chunks", "requests", "decode_context", "chunk_pairs", "chunk_context", "alone", "tokens",
    *(f"tokens_to_{k}" for k in KNOTS), *(f"tokens_from_{k}" for k in KNOTS),
)  # fmt: skip


def columns(steps: Steps) -> Floats:
    return matrix(steps.tokens, steps.chunks_count, steps.decodes_count, steps.decode_context_tokens,
                  steps.chunk_pairs, steps.chunk_context_tokens, steps.alone)  # fmt: skip


def matrix(
    tokens: Floats, chunks: Floats, decodes: Floats, decode_context: Floats, pairs: Floats, chunk_context: Floats,
    alone: Floats,
) -> Floats:  # fmt: skip
    bends = [np.minimum(tokens, k) for k in KNOTS] + [np.maximum(tokens - k, 0.0) for k in KNOTS]
    parts = [np.ones_like(tokens), (chunks > 0) * 1.0, chunks + decodes, decode_context, pairs, chunk_context,
             alone, tokens]  # fmt: skip
    return np.column_stack([*parts, *bends])
