"""Ways to look after each pair, on the same pairs: how often each calls A/A better, and how often it finds 5 %.

Each takes trials (a row each, of gains) and gives for each trial whether it ever calls the candidate better, one-sided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bench.loop.effect_power.power import NOISES, Noise, drifting
from pellucid.tune.effect.sequence import SCALES, STAKE, target_log
from pellucid.tune.effect.spend import Spend

LEVEL = 0.05
LOOKS = 60          # at most; the first look is after the second pair
SIGMA, EFFECT, EFFECT_LOOKS = 0.05, 0.05, 30
Floats = NDArray[np.float64]
Method = Callable[[Floats, float], NDArray[np.bool_]]


def ours(gains: Floats, level: float) -> NDArray[np.bool_]:
    """`pellucid.tune.effect.sequence` against a centre of 0."""
    logs = [np.cumsum(np.log1p(STAKE * np.tanh(gains / scale)), axis=1) for scale in SCALES]
    return np.asarray((np.logaddexp.reduce(logs) >= target_log(level)).any(axis=1))


def self_normalised(gains: Floats, level: float) -> NDArray[np.bool_]:
    """exp(λS − λ²V/2), V the sum of squares, mixed over a Gaussian λ (de la Peña 1999). Both sides: a half each."""
    total, squares = np.cumsum(gains, axis=1), np.cumsum(gains**2, axis=1)
    spread = 1 / 0.04**2
    logs = total**2 * spread / (2 * (1 + spread * squares)) - np.log1p(spread * squares) / 2
    return np.asarray(((logs >= -math.log(2 * level)) & (total > 0)).any(axis=1))


def t_mixture(gains: Floats, level: float) -> NDArray[np.bool_]:
    """Gaussian mixture over the effect size, scale unknown: Wang, Ramdas, "Anytime-valid t-tests" (2023); Lai 1976."""
    counts, t = _t(gains)
    width = 1 + counts * 1.0
    logs = counts / 2 * (np.log1p(t**2 / (counts - 1)) - np.log1p(t**2 / ((counts - 1) * width))) - np.log(width) / 2
    return np.asarray(((logs >= -math.log(2 * level)) & (t > 0)).any(axis=1))


def asymptotic(gains: Floats, level: float) -> NDArray[np.bool_]:
    """Asymptotic confidence sequence: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (2021), tightest at 30 pairs."""
    counts, t = _t(gains)
    both = 2 * level
    rho2 = (-2 * math.log(both) + math.log(-2 * math.log(both)) + 1) / 30
    grown = counts * rho2 + 1
    reach = np.sqrt(2 * grown / (counts**2 * rho2) * np.log(np.sqrt(grown) / both))
    return np.asarray((t / np.sqrt(counts) > reach).any(axis=1))


def t_test(gains: Floats, level: float) -> NDArray[np.bool_]:
    """A t-test, as if each look were the only one."""
    counts, t = _t(gains)
    return np.asarray((stats.t.sf(t, counts - 1) < level).any(axis=1))


METHODS: dict[str, Method] = {
    "bets on the sign (ours)": ours, "self-normalised": self_normalised, "t mixture": t_mixture,
    "asymptotic sequence": asymptotic, "t-test at each look": t_test,
}


def spikes(rng: np.random.Generator, count: int) -> Floats:
    """Nothing much, and a pause now and then."""
    return 0.1 * rng.standard_normal(count) + 7 * (rng.random(count) < 0.02)


def conditions() -> dict[str, Callable[[np.random.Generator], Floats]]:
    """What is told apart: kinds of noise with the coin, and drift where the order was not tossed."""
    kinds = {**NOISES, "spikes": spikes}
    tossed = {name: _tossed(noise) for name, noise in kinds.items()}
    return {**tossed, "drifting, no coin": partial(drifting, count=LOOKS)}


def _tossed(noise: Noise) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: noise(rng, LOOKS) * rng.choice([-1.0, 1.0], LOOKS)


def print_methods(repeats: int, seed: int) -> None:
    """A row for each method: false calls by noise at 5 %, and power at the level of a first candidate."""
    made = conditions()
    print(f"\nA/A called better at any of {LOOKS - 1} looks, level {LEVEL:.0%}, {repeats:,} trials; last column: "
          f"{EFFECT:.0%} at a σ of {SIGMA:.0%} found in {EFFECT_LOOKS} pairs, level {Spend(1).level:.2%}\n")
    print("| method | " + " | ".join(made) + " | finds |")
    print("|" + "---|" * (len(made) + 2))
    rng = np.random.default_rng(seed)
    trials = {name: np.array([SIGMA * make(rng) for _ in range(repeats)]) for name, make in made.items()}
    found = math.log1p(EFFECT) + trials["gaussian"][:, :EFFECT_LOOKS]
    for name, method in METHODS.items():
        shares = [f"{method(gains, LEVEL).mean():.1%}" for gains in trials.values()]
        print(f"| {name} | " + " | ".join([*shares, f"{method(found, Spend(1).level).mean():.0%}"]) + " |", flush=True)


def _t(gains: Floats) -> tuple[Floats, Floats]:
    """Numbers of pairs from the second on, and t after each."""
    counts = np.arange(1, gains.shape[1] + 1)
    means = np.cumsum(gains, axis=1) / counts
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.maximum(np.cumsum(gains**2, axis=1) / counts - means**2, 1e-30) * counts / (counts - 1))
    return counts[1:].astype(float), (means / spread * np.sqrt(counts))[:, 1:]
