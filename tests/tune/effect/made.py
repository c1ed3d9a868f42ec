"""Blocks and pairs for tests, written as what matters in them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pellucid.tune.effect.pairs import NS_PER_S, Block, Order, Pair

PLAIN = Block(
    output_tokens_per_s=100.0, tpot_mean_ns=8e7, ttft_p50_ns=4e8, ttft_p95_ns=9e8, itl_p95_ns=1e8, e2e_p95_ns=6e9,
    requests_count=10, errors_count=0, good_count=8, duration_ns=10 * NS_PER_S,
)
FAILED = replace(PLAIN, errors_count=3)
SILENT = replace(PLAIN, output_tokens_per_s=None)


def faster(factor: float) -> Block:
    """More tokens a second, less time for each; the times of first tokens stay."""
    return replace(PLAIN, output_tokens_per_s=100.0 * factor, tpot_mean_ns=8e7 / factor)


def pairs_of(gains: Iterable[float], start: int = 0) -> list[Pair]:
    """Pairs with these gains in output_tokens_per_s and tpot_mean_ns, in turns first and second."""
    orders: tuple[Order, Order] = ("ab", "ba")
    return [Pair(PLAIN, faster(math.exp(gain)), orders[at % 2], start) for at, gain in enumerate(gains)]
