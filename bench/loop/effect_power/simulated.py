"""Noise that nobody measured: a stand-in to try the sessions on before there is a recording. It proves nothing.

What it imitates was seen between two servers on two cores (biases of starts, two clusters) or is usual (drift, spikes).
"""

from __future__ import annotations

import math

import numpy as np

from pellucid.tune.effect.noise import Noise, Recorded
from pellucid.tune.effect.pairs import NS_PER_S, Block

BLOCK_S = 10
STARTS, BLOCKS_OF_A_START = 12, 80      # 160 minutes
PLACES = (0, 0, 1, 1)


def simulated(seed: int) -> Noise:
    """Two engines, started twelve times, of one configuration."""
    rng = np.random.default_rng(seed)
    blocks: list[Recorded] = []
    warm, is_slow = 0.0, False
    for start in range(STARTS):
        biases = rng.normal(0, 0.05, 2)                     # of the two processes: 7 % between them
        for _ in range(BLOCKS_OF_A_START):
            place = PLACES[len(blocks) % len(PLACES)]
            warm = 0.8 * warm + 0.02 * float(rng.standard_normal())
            is_slow = bool(rng.random() < (0.9 if is_slow else 0.03))       # a cluster is stayed in for ten blocks
            log_rate = biases[place] + warm - 0.3 * is_slow + 0.02 * float(rng.standard_t(3))
            log_rate += 0.1 * math.sin(len(blocks) / 200)   # the day
            blocks.append(Recorded(place, start, len(blocks) * BLOCK_S * NS_PER_S, _block(math.exp(log_rate))))
    return Noise(conditions={"source": "SIMULATED, not measured", "block": f"{BLOCK_S} s"}, blocks=tuple(blocks))


def _block(factor: float) -> Block:
    return Block(
        output_tokens_per_s=90 * factor, tpot_mean_ns=8e7 / factor, ttft_p50_ns=5e8 / factor, ttft_p95_ns=1e9 / factor,
        itl_p95_ns=1e8 / factor, e2e_p95_ns=6e9 / factor, requests_count=8, errors_count=0, good_count=None,
        duration_ns=BLOCK_S * NS_PER_S,
    )
