"""Matrix multiplications: shapes and formats → Work.

    gemm(4096, 7168, 16384, FP8_BLOCK, activations=FP8, precision="fp8").flop     ≈ 962 GFLOP
    gemm(16, 8192, 8192, grouped(4, 128, zero_points=False)).moved_bytes          ≈ 35 MB
"""

from __future__ import annotations

from math import ceil

from pellucid.physics.formats import BF16, Format, Precision
from pellucid.physics.work import Work

ACTIVATION_BLOCK = 128     # columns that share a scale where activations are made fp8 by block (DeepSeek-V3, §3.3)


def gemm(
    m: int, n: int, k: int, weights: Format = BF16, activations: Format = BF16, outputs: Format = BF16,
    precision: Precision | None = None,
) -> Work:  # fmt: skip
    """Activations (m × k) by weights (n × k) to outputs (m × n).

    flop = 2·m·n·k, in the format's own precision unless `precision` says otherwise (W4A16 runs in bf16). Bytes: each
    once, with the weights' scales, and 4·m·k/128 for the activations' scales where both are in fp8 by block.
    """
    moved = m * k * activations.element_bytes + weights.stored_bytes(n, k) + m * n * outputs.element_bytes
    if activations.element_bits == 8 and weights.block_columns:
        moved += 4 * m * ceil(k / ACTIVATION_BLOCK)
    return Work.of(precision or weights.compute, 2.0 * m * n * k, moved)


def wave_ratio(m: int, n: int, tile_m: int, tile_n: int, processors_count: int, splits_count: int = 1) -> float:
    """Share of the processors' time in which a grid of tiles keeps them busy: tiles ÷ (processors × waves)."""
    tiles = ceil(m / tile_m) * ceil(n / tile_n) * splits_count
    return tiles / (processors_count * ceil(tiles / processors_count))
