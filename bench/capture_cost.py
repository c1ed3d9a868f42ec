"""What a capture of N steps costs a serving engine: in its window, and after it.

    .venv/bin/python -m bench.capture_cost [--rounds 12] [--steps 10] [--model gemma-3-270m]
    python3 -m bench.capture_cost --model NAME --command 'python3 -m vllm.entrypoints.cli.main serve … --port {port}'

One server with the probe, loaded again and again with the same kind of burst, three in a round: one with a capture in
it, the next right after, and one far from any. Ratios with ÷ without by round, and after ÷ without; the order of the
rounds' ends alternates. The longest gap between two tokens of a request is the client's own.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.engine_overhead import Load, begin, interval
from pellucid.testing.engine import Engine, stop
from pellucid.testing.traffic import TEXT, TOKENS
from pellucid.verbs.captures.ask import Answer, Wish, ask, wait
from tools import real_engine

INTO_S = 0.5        # a capture begins so long after its burst
MEASURES = ("gap between tokens p50", "gap between tokens p99", "output tokens/s", "longest gap")


@dataclass(frozen=True, slots=True)
class Round:
    during: list[float]
    after: list[float]
    without: list[float]
    answer: Answer


def burst(load: Load, engine: Engine, seed: int) -> list[float]:
    replies = load.send(engine, seed)
    gaps = [b.time_ns - a.time_ns for r in replies for a, b in pairwise(r.arrivals)]
    return [*load.measures(replies), float(max(gaps))]


def one(engine: Engine, load: Load, rings: Path, steps: int, n: int) -> Round:
    def quiet() -> list[float]:
        return burst(load, engine, 100 + n)

    before = quiet() if n % 2 else None
    answers: list[Answer] = []

    def capture() -> None:
        time.sleep(INTO_S)
        asked = ask(rings, Wish(steps))
        answers.extend(wait(asked, lambda: False).values())

    thread = threading.Thread(target=capture)
    thread.start()
    during = burst(load, engine, 300 + n)
    thread.join()
    after = burst(load, engine, 500 + n)
    bad = [a for a in answers if a.state != "done"]
    if bad or len(answers) != 1:
        raise RuntimeError(f"the capture did not come: {[a.reason for a in bad]}")
    return Round(during, after, before or quiet(), answers[0])


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--model", default="gemma-3-270m")
    options.add_argument("--command", help="another engine, which is to listen on {port}")
    options.add_argument("--tokens", action="store_true", help="send token ids and take token ids back")
    options.add_argument("--requests", type=int, default=8)
    options.add_argument("--prompt", type=int, default=32)
    options.add_argument("--output", type=int, default=64)
    asked = options.parse_args()
    load = Load(asked.model, asked.requests, asked.prompt, asked.output, TOKENS if asked.tokens else TEXT)
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as rings, \
            tempfile.TemporaryDirectory() as logs:  # fmt: skip
        engine = begin(asked, {"PELLUCID_DIR": rings}, Path(logs) / "engine.log")
        try:
            for seed in (0, 1):
                burst(load, engine, seed)
            rounds = [one(engine, load, Path(rings), asked.steps, n) for n in range(asked.rounds)]
        finally:
            stop(engine, 30)
    how = asked.command or f"CPU engine, {real_engine.dtype()}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {asked.model}, {how}; {load.requests} requests "
          f"at once, {load.prompt} + {load.output} tokens, captures of {asked.steps} steps, {len(rounds)} rounds, "
          f"load {os.getloadavg()[0]:.1f}")
    report(rounds)
    return 0


def report(rounds: list[Round]) -> None:
    for name in ("start_cost_ns", "stop_cost_ns", "export_ns", "trace_bytes"):
        values = [float(getattr(r.answer, name)) for r in rounds]
        scale, unit = (1e6, "ms") if name.endswith("_ns") else (2**20, "MiB")
        middle, worst = statistics.median(values) / scale, max(values) / scale
        print(f"{name:24} median {middle:8.1f} {unit}   worst {worst:8.1f} {unit}")
    for what in ("during", "after"):
        for n, measure in enumerate(MEASURES):
            mean, low, high = interval([getattr(r, what)[n] / r.without[n] for r in rounds])
            print(f"{measure:24} {what} ÷ without  {mean:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    longest = [r.during[-1] / 1e6 for r in rounds]
    print(f"longest gap with a capture: median {statistics.median(longest):.0f} ms, worst {max(longest):.0f} ms; "
          f"without: median {statistics.median(r.without[-1] / 1e6 for r in rounds):.0f} ms (goal: 500 ms, 10 steps)")


if __name__ == "__main__":
    sys.exit(main())
