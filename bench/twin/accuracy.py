"""How right a twin of a real engine is on loads that it has not learnt from.

    .venv/bin/python -m bench.twin.accuracy [--case dense] [--seconds 75] [--out table.json]
    .venv/bin/python -m bench.twin.accuracy --recorded FOLDER       runs of an H200 (splits_h200.toml), made before

For each case of splits.toml: the real engine is started anew for every load, under `pellucid run`, and a public trace
is replayed to it at that load. The twin learns from the steps of the loads under `learn` and predicts the requests of
those under `held`, each of which is run twice: what two runs of the same differ by is the A/A spread that an error is
held against. Goals: throughput and TPOT within 5 % or one and a half times that spread, TTFT p50 within 10 %, p95
within 20 %; nine of ten measures in their interval.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.verbs.predict.check import check
from tools import real_engine
from tools.recording import pellucid, serve

HERE = Path(__file__).parent
DATA = real_engine.ROOT.parent / "shared" / "data"
FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "32", "--load-format", "dummy")
GOALS = {"output_tokens_per_s": 0.05, "tpot_mean_ns": 0.05, "ttft_p50_ns": 0.10, "ttft_p95_ns": 0.20}
SPREAD_TIMES = 1.5
SEEDS = (11, 12)           # of the two runs of a load that is predicted


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    model: str
    workload: Path
    scale_tokens: float
    learn: tuple[float, ...]
    held: tuple[float, ...]
    key: str

    def loads(self) -> list[tuple[float, int]]:
        """(speed, seed) of every run: those to learn from, then two of each that is predicted."""
        return [(speed, n) for n, speed in enumerate(self.learn)] + [(speed, n) for speed in self.held for n in SEEDS]


def cases(splits: str, wanted: str) -> list[Case]:
    told = tomllib.loads((HERE / splits).read_text())["case"]
    made = [Case(c["name"], c.get("model", ""), DATA / c.get("workload", ""), c["scale_tokens"], tuple(c["learn"]),
                 tuple(c["held"]), c.get("key", "")) for c in told]  # fmt: skip
    return [case for case in made if case.name.startswith(wanted)]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def record(case: Case, speed: float, seconds: int, seed: int, home: Path) -> Path:
    """The folder of a run of this load."""
    workload = home / f"{case.workload.name}.parquet"
    if not workload.exists():
        home.mkdir(parents=True, exist_ok=True)
        words = pellucid("workload", "import", str(case.workload), str(workload))
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PELLUCID_HOME": str(home)})
    served = serve(case.model, FLAGS, home, home / f"{case.model}-{speed}-{seed}.log")
    try:
        done = subprocess.run(
            pellucid("replay", str(workload), "--url", served.url, "--speed", str(speed), "--scale-tokens",
                     str(case.scale_tokens), "--for", f"{seconds}s", "--seed", str(seed), "--model-config",
                     str(real_engine.MODELS / case.model), "--json"),
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        served.end()
    if done.returncode not in (0, 3):
        raise SystemExit(f"{case.name}, {speed:g}x: the replay failed: {done.stderr[-600:]}")
    say(f"{case.name}, {speed:g}x: {'the client was in the way' if done.returncode else 'replayed'}")
    return served.folder()


def recorded(case: Case, speed: float, seed: int, folder: Path) -> Path | None:
    """The folder of a run that was made elsewhere; None where there is none."""
    found = folder / f"twin.{case.key}.{speed:g}x.{seed}"
    if found.is_dir():
        return found
    say(f"{case.name}: {found} is not there")
    return None


def rows(case: Case, of: Callable[[float, int], Path | None]) -> list[dict[str, Any]]:
    """What was predicted and what came of it; `of` gives the run of a speed and a seed."""
    made = {load: folder for load in case.loads() if (folder := of(*load)) is not None}
    learnt = [made[speed, n] for n, speed in enumerate(case.learn)]
    found = []
    for speed in case.held:
        checked = [check(learnt[0], made[load], learnt[1:]) for n in SEEDS if (load := (speed, n)) in made]
        measured = [{row["measure"]: row["measured"] for row in c.rows} for c in checked]
        for c in checked:
            for row in c.rows:
                first, second = (m.get(row["measure"]) for m in (measured[0], measured[-1]))
                found.append({
                    **row, "case": case.name, "speed": speed, "beyond": speed > max(case.learn),
                    "spread_ratio": abs(first / second - 1) if first and second and len(measured) > 1 else None,
                    "drift": any("very same steps" in note for note in c.notes),
                })  # fmt: skip
    return found


def table(found: list[dict[str, Any]]) -> None:
    print(f"{'case':<46}{'load':>6}  {'measure':<21}{'predicted':>12}{'measured':>12}{'off by':>9}{'A/A':>8}  in  goal")
    for row in found:
        goal = GOALS.get(row["measure"])
        if goal is None:
            continue
        spread = row["spread_ratio"] or 0.0
        least = max(goal, SPREAD_TIMES * spread) if goal == 0.05 else goal
        scale, unit = (1e6, "ms") if row["measure"].endswith("_ns") else (1.0, "/s")
        print(f"{row['case'][:45]:<46}{row['speed']:>5g}x  {row['measure']:<21}{row['predicted'] / scale:>10.4g}{unit}"
              f"{row['measured'] / scale:>10.4g}{unit}{row['error_ratio']:>+9.1%}{spread:>8.1%}  "
              f"{'yes' if row['covered'] else 'NO':<4}{'met' if abs(row['error_ratio']) <= least else 'MISSED'}"
              f"{'  beyond' if row['beyond'] else ''}{'  drift' if row['drift'] else ''}")  # fmt: skip
    covered = sum(row["covered"] for row in found)
    widths = sorted(row["half_width_ratio"] for row in found)
    print(f"in their interval: {covered} of {len(found)} ({covered / len(found):.0%}; goal 90 %); half-width of the "
          f"interval, median: {widths[len(widths) // 2]:.1%} (goal 15 %)")  # fmt: skip


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--case", default="", help="only those whose name begins so")
    ask.add_argument("--seconds", type=int, default=75)
    ask.add_argument("--out", type=Path)
    ask.add_argument("--recorded", type=Path, metavar="FOLDER", help="of runs that were made on an H200")
    options = ask.parse_args(arguments)
    if options.recorded:
        print(f"conditions: runs of {options.recorded}, conditions as in splits_h200.toml")
    else:
        print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, vLLM-CPU, {options.seconds} s a load, "
              f"{' '.join(FLAGS)}, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="pellucid-twin-") as folder:
        for number, case in enumerate(cases("splits_h200.toml" if options.recorded else "splits.toml", options.case)):

            def of(speed: float, seed: int, case: Case = case, home: Path = Path(folder) / str(number)) -> Path | None:
                if options.recorded:
                    return recorded(case, speed, seed, options.recorded)
                return record(case, speed, options.seconds, seed, home)

            found += rows(case, of)
            if options.out:
                options.out.write_text(json.dumps(found, indent=1))
    table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
