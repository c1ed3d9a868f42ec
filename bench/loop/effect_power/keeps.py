"""Recorded noise → sessions in which every candidate is the default → how many of them keep anything.

A session tries five candidates for up to ten minutes each and looks after each pair. Its pairs are drawn by the
stationary bootstrap (Politis, Romano, "The stationary bootstrap", JASA 1994): runs of neighbours as they were recorded,
of ten pairs in the mean, so that drift and what goes on from block to block stay in.

Beside our verdict the same pairs are judged by a t-test at the same level, looked at after each pair from the third on:
what is usually done. If that keeps nothing either, the noise shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from scipy import stats

from pellucid.core.errors import CannotAnswer
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.arms import Arms, OneEngine, two_engines
from pellucid.tune.effect.judge import judge
from pellucid.tune.effect.noise import Neighbours, Noise, on_one_engine, on_two_engines
from pellucid.tune.effect.pairs import NS_PER_MINUTE, Pair, toss
from pellucid.tune.effect.spend import Spend

LEAST_NS = 120 * NS_PER_MINUTE
CANDIDATES = 5
TRIAL_NS = 10 * NS_PER_MINUTE
MEAN_RUN = 10           # pairs: 200 s of blocks of 10 s
TRIAL_STARTS = 2        # of a trial on two engines: each arm once in each place
AA_STARTS = 6           # that the bias is learnt from
T_TEST_FROM = 3


@dataclass(frozen=True, slots=True)
class Keeps:
    """Sessions that kept something, by our verdict and by a t-test that is looked at after each pair."""

    sessions_count: int
    kept_count: int
    t_test_kept_count: int

    def interval(self) -> tuple[float, float]:
        """Of the share kept: Clopper and Pearson, 95 %."""
        found = stats.binomtest(self.kept_count, self.sessions_count).proportion_ci(0.95, method="exact")
        return float(found.low), float(found.high)


def refuse_short(noise: Noise) -> None:
    """Raises CannotAnswer where less was recorded than the statement is about."""
    if noise.measured_ns < LEAST_NS:
        raise CannotAnswer(
            f"noise: {noise.measured_ns / NS_PER_MINUTE:.0f} minutes of blocks; at least {LEAST_NS // NS_PER_MINUTE} "
            "are needed. Record longer"
        )


def one_engine_sessions(noise: Noise, metric: str, sessions_count: int, seed: int) -> Keeps:
    """Sessions of live knobs: both arms are the same process."""
    series = on_one_engine(noise)
    if not series:
        raise CannotAnswer("noise: no two neighbouring blocks are of one engine. Record the places as 0 0 1 1 0 0 1 1")
    rng, coin = np.random.default_rng(seed), Random(seed)
    count = _pairs_of_a_trial(series)

    def candidate() -> tuple[list[Pair], Arms]:
        return [_tossed(found, toss(coin) == "ab") for found in resampled(series, count, rng)], OneEngine()

    return _sessions(candidate, metric, sessions_count)


def two_engine_sessions(noise: Noise, metric: str, sessions_count: int, seed: int) -> Keeps:
    """Sessions of knobs that need a start: a trial is two starts, judged with the bias that six others show."""
    series = on_two_engines(noise)
    if len(series) < TRIAL_STARTS + AA_STARTS:
        raise CannotAnswer(
            f"noise: {len(series)} starts of two engines; {TRIAL_STARTS + AA_STARTS} are needed. Restart both more"
        )
    rng = np.random.default_rng(seed)
    count = _pairs_of_a_trial(series) // TRIAL_STARTS

    def candidate() -> tuple[list[Pair], Arms]:
        drawn = [series[at] for at in rng.permutation(len(series))[:TRIAL_STARTS + AA_STARTS]]
        trial, aa = drawn[:TRIAL_STARTS], drawn[TRIAL_STARTS:]
        pairs: list[Pair] = []
        first_place = int(rng.integers(2))
        for number, start in enumerate(trial):
            place = (first_place + number) % 2
            pairs += [_placed(found, place, number) for found in resampled([start], count, rng)]
        known = [_placed(found, 0, number) for number, start in enumerate(aa) for found in start]
        return pairs, two_engines(known, TRIAL_STARTS)

    return _sessions(candidate, metric, sessions_count)


def resampled(
    series: Sequence[Sequence[Neighbours]], count: int, rng: np.random.Generator,
) -> list[Neighbours]:
    """So many pairs in runs of geometric length, each from a place drawn at random; it goes round within its list."""
    sizes = np.array([len(one) for one in series])
    drawn: list[Neighbours] = []
    while len(drawn) < count:
        one = series[int(rng.choice(len(series), p=sizes / sizes.sum()))]
        begin = int(rng.integers(len(one)))
        length = min(int(rng.geometric(1 / MEAN_RUN)), count - len(drawn))
        drawn += [one[(begin + at) % len(one)] for at in range(length)]
    return drawn


def t_test_says_better(pairs: Sequence[Pair], metric: str, level: float) -> bool:
    """Whether a one-sided t-test is below the level at any look."""
    gains = np.array([gain for pair in pairs if (gain := pair.gain(metric)) is not None and np.isfinite(gain)])
    counts = np.arange(1, len(gains) + 1)
    means = np.cumsum(gains) / counts
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.sqrt(np.maximum(np.cumsum(gains**2) / counts - means**2, 0) / (counts - 1))
        small = stats.t.sf(means / errors, counts - 1) < level
    return bool(small[T_TEST_FROM - 1:].any())


def _sessions(candidate: Callable[[], tuple[list[Pair], Arms]], metric: str, sessions_count: int) -> Keeps:
    kept = t_test_kept = 0
    for _ in range(sessions_count):
        ours = theirs = False
        for number in range(1, CANDIDATES + 1):
            pairs, arms = candidate()
            effect = judge(pairs, Spend(number), Aim(goal=metric), arms)
            ours = ours or any(point.word == "better" for point in effect.metrics[0].points)
            theirs = theirs or t_test_says_better(pairs, metric, effect.level)
        kept, t_test_kept = kept + ours, t_test_kept + theirs
    return Keeps(sessions_count, kept, t_test_kept)


def _pairs_of_a_trial(series: Sequence[Sequence[Neighbours]]) -> int:
    lasted_ns = [found.first.block.duration_ns + found.second.block.duration_ns for one in series for found in one]
    return max(2, int(TRIAL_NS / float(np.median(lasted_ns))))


def _tossed(found: Neighbours, is_a_first: bool) -> Pair:
    """The same two blocks; the coin says which of them was whose."""
    first, second = found.first.block, found.second.block
    return Pair(first, second, "ab") if is_a_first else Pair(second, first, "ba")


def _placed(found: Neighbours, place_of_a: int, start: int) -> Pair:
    """The engine at that place has the present configuration, throughout the start."""
    first, second = found.first, found.second
    if first.engine == place_of_a:
        return Pair(first.block, second.block, "ab", start)
    return Pair(second.block, first.block, "ba", start)
