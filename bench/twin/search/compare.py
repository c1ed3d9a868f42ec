"""Proposers compared by look-up in the recorded grids: how many trials, and how long, until a good point is found.

    .venv/bin/python -m bench.twin.search.compare [--seeds 200]

    random     points in a random order
    tpe        Optuna's tree-structured Parzen estimator, measuring every point that it asks for
    twin       all points on virtual time first; then those that it holds best are measured, the best first

A trial's value and its time are the recorded block's; the twin's own time is measured here and counted. What was found
is judged on blocks that no proposer saw ("again") where a point has some. Regret: how much less than the best point's
output tokens a second; a point that breaks a limit has lost everything. Goals: regret of 3 % within a tenth of the
grid's trials, in a third of the time that TPE takes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import optuna

from bench.twin.search.grid import LIMIT_RATIO, LIMITED, WANTED, Case, Measured, Point, cases, read
from pellucid.core.errors import AskedWrongly
from pellucid.sim.engine.request import Ask
from pellucid.sim.predict import quick
from pellucid.store.read import open_run
from pellucid.tune.space import Setting, candidate
from pellucid.verbs.predict.settings import changed
from pellucid.verbs.predict.twin import twin_of

GOOD_REGRET, SHARE_OF_TRIALS, SHARE_OF_TIME = 0.03, 0.10, 1 / 3
Score = Callable[[Point], float]
Order = Iterator[Point]


@dataclass(frozen=True, slots=True)
class Grid:
    """What a proposer may look up, and what it is judged by."""

    case: Case
    measured: Measured
    limits: Mapping[str, float]

    def seen(self, point: Point) -> float:
        return self.measured.worth(point, self.limits)

    def took_s(self, point: Point) -> float:
        return float(median(block["took_s"] for block in self.measured.rounds["grid"][point]))

    def true(self, point: Point) -> float:
        return self.measured.worth(point, self.limits, "again" if point in self.measured.rounds["again"] else "grid")

    def regret(self, point: Point) -> float:
        best = max(self.true(p) for p in self.measured.rounds["again"])
        return min(1.0, max(0.0, 1 - max(0.0, self.true(point)) / best))


@dataclass(frozen=True, slots=True)
class Search:
    regrets: list[float]           # of the best seen so far, after each trial
    times_s: list[float]           # since the search began, the proposer's own time in it

    def until_good(self) -> int | None:
        """Trials after which what was found is good and stays so."""
        bad = [n for n, regret in enumerate(self.regrets, 1) if regret > GOOD_REGRET]
        first = (bad[-1] if bad else 0) + 1
        return first if first <= len(self.regrets) else None


def at_random(grid: Grid, seed: int, _score: Score) -> Order:
    points = grid.case.points()
    random.Random(seed).shuffle(points)
    yield from points


def tpe(grid: Grid, seed: int, score: Score) -> Order:
    """Each point once: a point that was measured costs nothing to ask for again."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    left = set(grid.case.points())
    while left:
        trial = study.ask()
        point = tuple(trial.suggest_categorical(name, ladder) for name, ladder in grid.case.dials.items())
        if point in left:
            left.discard(point)
            yield point
        study.tell(trial, score(point))
        if len(study.trials) > 20 * len(grid.case.points()):
            yield from sorted(left)
            return


def twin(grid: Grid, seed: int, _score: Score) -> Order:
    """Its steps scatter by the seed."""
    made = twin_of(open_run(grid.case.folder / "run"))
    asks = [Ask(**{**ask, "blocks": tuple(ask["blocks"])}) for ask in grid.measured.asks]

    def foretold(point: Point) -> dict[str, float | None] | None:
        wanted = candidate(Setting(name, value) for name, value in grid.case.named(point).items())
        try:
            return quick(asks, changed(made.settings, wanted), made.twin, seed=seed)
        except AskedWrongly:           # a budget below the cap
            return None

    here = foretold(grid.case.present)
    assert here is not None
    limits = {name: LIMIT_RATIO * (here[name] or 0.0) for name in LIMITED}

    def order(point: Point) -> tuple[float, float]:
        there = foretold(point)
        if there is None:
            return float("inf"), 0.0
        broken = sum(max(0.0, (there[name] or 0.0) / limit - 1) for name, limit in limits.items())
        return broken, -(there[WANTED] or 0.0)

    yield from sorted(grid.case.points(), key=order)


def searched(grid: Grid, proposer: Callable[[Grid, int, Score], Order], seed: int, most: int) -> Search:
    regrets: list[float] = []
    times: list[float] = []
    own_s, trials_s, began_s = 0.0, 0.0, time.perf_counter()
    best: Point | None = None
    for point in proposer(grid, seed, grid.seen):
        own_s += time.perf_counter() - began_s
        trials_s += grid.took_s(point)
        if best is None or grid.seen(point) > grid.seen(best):
            best = point
        regrets.append(grid.regret(best))
        times.append(own_s + trials_s)
        if len(regrets) == most:
            break
        began_s = time.perf_counter()
    return Search(regrets, times)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def compare(case: Case, seeds: int) -> int:
    """Prints the case's rows. Goals that were missed."""
    measured = read(case)
    grid = Grid(case, measured, measured.limits(case.present))
    count = len(case.points())
    tenth = int(SHARE_OF_TRIALS * count)
    ends = {}
    for name, proposer in (("random", at_random), ("tpe", tpe), ("twin", twin)):
        runs = [searched(grid, proposer, seed, count) for seed in range(seeds)]
        need = [one.until_good() or count for one in runs]
        took = [one.times_s[n - 1] for one, n in zip(runs, need, strict=True)]
        early = [one.regrets[tenth - 1] for one in runs]
        ends[name] = (median(need), median(took))
        print(f"| {case.key} | {name} | {median(need):.0f} | {quantile(need, 0.9):.0f} | {median(took):.0f} s | "
              f"{median(early):.1%} | {quantile(early, 0.9):.1%} | "
              f"{sum(e <= GOOD_REGRET for e in early) / len(early):.0%} |", flush=True)  # fmt: skip
    ratio = ends["twin"][1] / ends["tpe"][1]
    few, soon = ends["twin"][0] <= SHARE_OF_TRIALS * count, ratio <= SHARE_OF_TIME
    gain = max(grid.true(p) for p in measured.rounds["again"]) / grid.measured.wanted(case.present) - 1
    print(f"    {case.key}: the best of {count} has {gain:+.1%} tokens a second against the present "
          f"configuration, in at most {LIMIT_RATIO:g} of its {', '.join(LIMITED)}; "
          f"within a tenth of the trials: {'met' if few else 'MISSED'}; "
          f"a third of TPE's time: {'met' if soon else 'MISSED'} ({ratio:.2f} of it)")
    return (not few) + (not soon)


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--seeds", type=int, default=200)
    ask.add_argument("cases", nargs="*")
    asked = ask.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    known = cases()
    print(f"conditions: grids as recorded (their first lines say where), {asked.seeds} seeds a proposer\n")
    print("| case | proposer | trials to 3 % regret, median | p90 | time to it | regret after a tenth, median | p90 | "
          "seeds within 3 % by then |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    missed = sum(compare(known[name], asked.seeds) for name in asked.cases or known)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
