"""Trials with a known effect and a known scatter → how often each word, and after how many minutes.

A pair's gain is the effect plus noise with a standard deviation of σ; the coin gives the noise its sign. Both arms are
one engine. A trial ends at its first word, looked for after each pair, or after ten minutes of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.arms import OneEngine
from pellucid.tune.effect.judge import Word, judge
from pellucid.tune.effect.pairs import DIRECTIONS, NS_PER_MINUTE, NS_PER_S, Block, Pair, toss
from pellucid.tune.effect.spend import Spend

MINUTES = 10
WORDS: tuple[Word, ...] = ("better", "worse", "no difference", "inconclusive")
Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]      # scatter of pairs, of standard deviation 1


def gaussian(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return rng.standard_normal(count)


def heavy(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom."""
    return rng.standard_t(3, count) / math.sqrt(3)


def clusters(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Blocks are in one of two clusters, three of ten in the slow one: most of the scatter is between them."""
    slow = rng.random((count, 2)) < 0.3
    return 1.34 * (slow[:, 0] * 1.0 - slow[:, 1]) + 0.5 * rng.standard_normal(count)


def drifting(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Half of the variance goes on from pair to pair (0.8 of it each time): warm neighbours, governors."""
    slow = np.empty(count)
    state = rng.standard_normal()
    for at in range(count):
        state = 0.8 * state + 0.6 * rng.standard_normal()
        slow[at] = state
    return np.asarray(math.sqrt(0.5) * (slow + rng.standard_normal(count)))


NOISES: dict[str, Noise] = {"gaussian": gaussian, "heavy": heavy, "clusters": clusters, "drifting": drifting}


@dataclass(frozen=True, slots=True)
class Cell:
    """What is tried, again and again."""

    effect_ratio: float     # 0.05: the candidate is 5 % better in the metric
    sigma: float            # of a pair's gain
    block_s: int
    metric: str = "output_tokens_per_s"
    noise: str = "gaussian"
    number: int = 1         # of the candidate in its session


@dataclass(frozen=True, slots=True)
class Shares:
    """How the trials of a cell ended."""

    of: dict[Word, float]
    minutes_median: float | None    # of those that ended with a word


def measure(cell: Cell, repeats: int, seed: int) -> Shares:
    """Shares over so many trials."""
    rng, coin = np.random.default_rng(seed), Random(seed)
    ends = [trial(cell, rng, coin) for _ in range(repeats)]
    minutes = [minutes for word, minutes in ends if word != "inconclusive"]
    return Shares(
        of={name: sum(word == name for word, _ in ends) / repeats for name in WORDS},
        minutes_median=float(np.median(minutes)) if minutes else None,
    )


def trial(cell: Cell, rng: np.random.Generator, coin: Random) -> tuple[Word, float]:
    """The first word and the minutes of blocks until then."""
    count = MINUTES * 60 // (2 * cell.block_s)
    scatter = cell.sigma * NOISES[cell.noise](rng, count)
    better = math.log1p(cell.effect_ratio) if DIRECTIONS[cell.metric] > 0 else -math.log1p(-cell.effect_ratio)
    pairs = []
    for x in scatter:
        order = toss(coin)
        gain = better + (x if order == "ab" else -x)
        pairs.append(Pair(_block(0.0, cell), _block(gain, cell), order))
    effect = judge(pairs, Spend(cell.number), Aim(goal=cell.metric), OneEngine())
    for point in effect.metrics[0].points:
        if point.word != "inconclusive":
            return point.word, point.measured_ns / NS_PER_MINUTE
    return "inconclusive", float(MINUTES)


def _block(gain: float, cell: Cell) -> Block:
    factor = math.exp(gain)
    return Block(
        output_tokens_per_s=100 * factor, tpot_mean_ns=8e7 / factor, ttft_p50_ns=None, ttft_p95_ns=None,
        itl_p95_ns=None, e2e_p95_ns=None, requests_count=10, errors_count=0, good_count=None,
        duration_ns=cell.block_s * NS_PER_S,
    )
