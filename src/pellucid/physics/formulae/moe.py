"""Mixture of experts: tokens, experts and real or assumed routing → Work.

    touched(experts_count=128, active_count=8, tokens=64)       ≈ 126 of 128
    experts(Shape(128, 8, 2048, 768), tokens=64).moved_bytes    ≈ 1.2 GB, nearly all of it weights

The experts that a step really touches decide its bytes. Uniform routing is an assumption and is said to be one:
trained routers are skewed, and touch fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb

from pellucid.physics.formats import BF16, Format, Precision
from pellucid.physics.work import Work

UNIFORM = "routing is uniform: nobody counted the experts"


@dataclass(frozen=True, slots=True)
class Shape:
    """The routed experts of one layer."""

    experts_count: int
    active_count: int      # of each token
    hidden: int
    width: int             # of one expert, on this device
    gated: bool = True     # gate and up beside down

    @property
    def matrices(self) -> int:
        return 3 if self.gated else 2


def touched(experts_count: int, active_count: int, tokens: float) -> float:
    """Distinct experts that `tokens` tokens are expected to hit: E·(1 − (1 − k/E)^T), each token uniform by itself."""
    missed: float = (1 - active_count / experts_count) ** tokens
    return experts_count * (1 - missed)


def ranks_touched(experts_count: int, active_count: int, ranks_count: int) -> float:
    """Ranks that hold at least one of a token's experts, expected: R·(1 − C(E − E/R, k) / C(E, k))."""
    local = experts_count // ranks_count
    return ranks_count * (1 - comb(experts_count - local, active_count) / comb(experts_count, active_count))


def router(tokens: int, hidden: int, experts_count: int, weights: Format = BF16) -> Work:
    """Scores of all experts: 2·T·H·E. Scores are written in fp32."""
    moved = tokens * hidden * 2 + weights.stored_bytes(experts_count, hidden) + 4 * tokens * experts_count
    return Work.of("bf16", 2.0 * tokens * hidden * experts_count, moved)


def experts(
    shape: Shape, tokens: float, weights: Format = BF16, activations: Format = BF16,
    precision: Precision | None = None, tokens_by_expert: Sequence[int] | None = None, local_count: int | None = None,
) -> Work:  # fmt: skip
    """The routed experts' matrices (the two grouped products and what lies between).

    flop = 2·matrices·T·k·H·F. Bytes: matrices·H·F for each expert touched, and T·k·(2H + 3F) activations.
    `tokens_by_expert`: counts as routed, of the experts on this device; they replace T·k and the expected touch.
    `local_count`: experts on this device; it gets their share of the pairs.
    """
    local = shape.experts_count if local_count is None else local_count
    if tokens_by_expert is None:
        pairs = tokens * shape.active_count * local / shape.experts_count
        hit = touched(shape.experts_count, shape.active_count, tokens) * local / shape.experts_count
    else:
        pairs, hit = float(sum(tokens_by_expert)), float(sum(n > 0 for n in tokens_by_expert))
    side = weights.stored_bytes(shape.width, shape.hidden)
    between = 3 if shape.gated else 2
    moved = hit * shape.matrices * side + pairs * (2 * shape.hidden + between * shape.width) * activations.element_bytes
    work = Work.of(precision or weights.compute, 2.0 * shape.matrices * pairs * shape.hidden * shape.width, moved)
    return work if tokens_by_expert is not None else work.assuming(UNIFORM)


def combine(tokens: int, active_count: int, hidden: int, activations: Format = BF16) -> Work:
    """Sum of each token's experts, by their weights: T·k·H read, T·H written."""
    moved = tokens * hidden * (active_count + 1) * activations.element_bytes
    return Work.of("fp32", 2.0 * tokens * active_count * hidden, moved)


def padding_ratio(tokens_by_expert: Sequence[int], tile_tokens: int) -> float:
    """Rows computed for rows wanted, where each expert's rows are filled up to whole tiles. At least 1."""
    wanted = sum(tokens_by_expert)
    return sum(ceil(n / tile_tokens) * tile_tokens for n in tokens_by_expert) / wanted if wanted else 1.0
