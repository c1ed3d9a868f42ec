"""Tables of the verdict on speed: its level beside other methods, its power, its false keeps on recorded noise.

    python -m bench.loop.effect_power                      # all; false keeps on tests/golden/noise.jsonl
    python -m bench.loop.effect_power methods              # other ways to look after each pair, beside ours
    python -m bench.loop.effect_power keeps --noise FILE   # on a recording of one's own
    python -m bench.loop.effect_power keeps --simulated    # on made-up noise, and it says so

The exit code is 1 where a goal is missed, 3 where there is no recording.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.loop.effect_power import keeps, power
from bench.loop.effect_power.methods import print_methods
from bench.loop.effect_power.simulated import simulated
from pellucid.core.errors import CannotAnswer
from pellucid.tune.effect.arms import TwoEngines
from pellucid.tune.effect.noise import Noise, read
from pellucid.tune.effect.spend import SESSION_ERROR, Spend

RECORDED = Path(__file__).parents[3] / "tests" / "golden" / "noise.jsonl"
EFFECTS, SIGMAS, BLOCKS_S = (0.0, 0.02, 0.03, 0.05, 0.10, 0.20), (0.01, 0.03, 0.05, 0.10), (10, 20)
METRICS = ("output_tokens_per_s", "tpot_mean_ns")
GOAL_POWER = 0.90
HARDEST = power.Cell(effect_ratio=0.05, sigma=0.05, block_s=10)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.loop.effect_power", description=__doc__)
    parser.add_argument("part", nargs="?", choices=("methods", "power", "keeps", "all"), default="all")
    parser.add_argument("--repeats", type=int, default=1000, help="trials of a cell")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--noise", type=Path, default=RECORDED)
    parser.add_argument("--simulated", action="store_true", help="made-up noise instead of a recording")
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args(argv)
    print(f"seed {asked.seed}, {asked.repeats:,} trials a cell, {asked.sessions:,} sessions")
    worst = 0
    if asked.part in ("methods", "all"):
        print_methods(5 * asked.repeats, asked.seed)
    if asked.part in ("power", "all"):
        worst = max(worst, _print_power(asked.repeats, asked.seed))
        _print_starts()
    if asked.part in ("keeps", "all"):
        try:
            noise = simulated(asked.seed) if asked.simulated else _recorded(asked.noise)
            worst = max(worst, _print_keeps(noise, asked.sessions, asked.seed))
        except CannotAnswer as error:
            print(error, file=sys.stderr)
            worst = error.exit_code
    return worst


def _print_power(repeats: int, seed: int) -> int:
    print(f"\nOne engine, first candidate, output_tokens_per_s, {power.MINUTES} minutes\n")
    _head("effect", "σ of a pair", "block")
    for effect in EFFECTS:
        for sigma in SIGMAS:
            for block_s in BLOCKS_S:
                cell = power.Cell(effect, sigma, block_s)
                _row(power.measure(cell, repeats, seed), f"{effect:.0%}", f"{sigma:.0%}", f"{block_s} s")
    print("\nAn effect of 5 % at a σ of 5 %, blocks of 10 s, by metric, noise and number of the candidate\n")
    _head("metric", "noise", "number")
    missed = 0
    for metric in METRICS:
        found = power.measure(replace(HARDEST, metric=metric), repeats, seed)
        missed += found.of["better"] < GOAL_POWER
        _row(found, metric, "gaussian", "1")
    for noise in list(power.NOISES)[1:]:
        _row(power.measure(replace(HARDEST, noise=noise), repeats, seed), METRICS[0], noise, "1")
    for number in (2, 3, 5, 10):
        _row(power.measure(replace(HARDEST, number=number), repeats, seed), METRICS[0], "gaussian", str(number))
    print(f"\ngoal: better in ≥ {GOAL_POWER:.0%} of both metrics: {'missed' if missed else 'met'}")
    return int(missed > 0)


def _print_starts() -> None:
    """What two engines may differ by alone, as a multiple of the spread of A/A starts: under it nothing is seen."""
    print("\nTwo engines, first candidate: effects under this many times the spread of A/A starts are not seen\n")
    print("| A/A starts | 2 starts of the trial | 4 | 8 |\n|---|---|---|---|")
    for aa_count in (2, 4, 6, 8, 12, 24):
        gains = [1.0, -1.0] * (aa_count // 2)
        spread = float(np.std(gains, ddof=1))
        found = [TwoEngines({"tpot_mean_ns": gains}, count).bias("tpot_mean_ns", Spend(1).level) for count in (2, 4, 8)]
        print(f"| {aa_count} | " + " | ".join(f"{(bias or 0) / spread:.1f}" for bias in found) + " |")


def _print_keeps(noise: Noise, sessions: int, seed: int) -> int:
    print(f"\nFalse keeps, {noise.conditions}: {len(noise.blocks)} blocks, {noise.measured_ns / 6e10:.0f} minutes\n")
    keeps.refuse_short(noise)
    print("| arms | metric | sessions | kept | share | 95 % interval | t-test with peeking |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for arms, run in (("one engine", keeps.one_engine_sessions), ("two engines", keeps.two_engine_sessions)):
        for metric in METRICS:
            found = run(noise, metric, sessions, seed)
            low, high = found.interval()
            share = found.kept_count / found.sessions_count
            worst = max(worst, share)
            print(
                f"| {arms} | {metric} | {found.sessions_count:,} | {found.kept_count} | {share:.2%} | "
                f"{low:.2%} to {high:.2%} | {found.t_test_kept_count / found.sessions_count:.1%} |", flush=True,
            )
    print(f"\ngoal: ≤ {SESSION_ERROR:.0%} of sessions keep anything: {'missed' if worst > SESSION_ERROR else 'met'}")
    return int(worst > SESSION_ERROR)


def _recorded(path: Path) -> Noise:
    if not path.is_file():
        raise CannotAnswer(
            f"noise: no recording at {path}. Record at least two hours of blocks of two engines of one configuration "
            "(the format is on top of src/pellucid/tune/effect/noise.py), or give --noise FILE. "
            "--simulated tries the sessions on made-up noise"
        )
    with path.open("rb") as lines:
        return read(lines)


def _head(*names: str) -> None:
    print("| " + " | ".join((*names, *power.WORDS, "median minutes")) + " |")
    print("|" + "---|" * (len(names) + len(power.WORDS) + 1))


def _row(found: power.Shares, *names: str) -> None:
    minutes = "–" if found.minutes_median is None else f"{found.minutes_median:.1f}"
    print("| " + " | ".join((*names, *(f"{found.of[word]:.1%}" for word in power.WORDS), minutes)) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
