"""What the probe costs a real engine: the paired ratio of token gaps and throughput, with and without it.

    .venv/bin/python -m bench.engine_overhead [--rounds 6] [--model tiny-dense]
    python3 -m bench.engine_overhead --model NAME --command 'python3 -m vllm.entrypoints.cli.main serve … --port {port}'

Two servers are up at once, one with the probe and a recorder, one without; they are loaded in turn, the same load, in
ABBA order. Of the CPU engine each has one core, and half-way both start again with the cores swapped, since the core
and the place in the order are worth more than the probe; with --command they share the device and what cores there are.
The ratio's interval is a t interval over the logarithms of the pairs.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from scipy import stats

from pellucid.testing.engine import Engine, Launch, free_port, start, stop, wait_ready
from pellucid.testing.traffic import TEXT, TOKENS, Ask, send
from tools import real_engine
from tools.recording import launch

FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "16", "--load-format", "dummy")
READY_S = 400.0
PELLUCID = (sys.executable, "-c", "import sys; from pellucid.surface.cli import main; sys.exit(main())")
MEASURES = ("gap between tokens p50", "gap between tokens p99", "output tokens/s")


@dataclass(frozen=True, slots=True)
class Load:
    """A burst of `requests` at once, each of `prompt` and `output` tokens."""

    model: str
    requests: int
    prompt: int
    output: int
    path: str

    def __call__(self, engine: Engine, seed: int) -> tuple[float, float, float]:
        """The MEASURES: ns, ns, per s."""
        pick = random.Random(seed)
        asks = [
            Ask(0.0, [pick.randrange(3, 4000) for _ in range(self.prompt)], self.output, path=self.path)
            for _ in range(self.requests)
        ]
        replies = send(engine.url, self.model, asks)
        failed = next((r for r in replies if not r.ok), None)
        if failed is not None:
            raise RuntimeError(f"{failed.status} {failed.error}")
        gaps = sorted(b.time_ns - a.time_ns for r in replies for a, b in pairwise(r.arrivals))
        took_s = (max(r.end_ns for r in replies) - min(r.sent_ns for r in replies)) / 1e9
        return statistics.median(gaps), gaps[int(0.99 * len(gaps))], self.requests * self.output / took_s


Begin = Callable[[dict[str, str], int, Path], Engine]     # environment, arm, log → an engine that serves


def cpu(model: str, first_core: int) -> Begin:
    def begin(env: dict[str, str], arm: int, log: Path) -> Engine:
        core = {"VLLM_CPU_OMP_THREADS_BIND": str((first_core + arm) % 2)}
        return launch(model, FLAGS, log, env={**env, **core})[0]

    return begin


def commanded(command: str) -> Begin:
    def begin(env: dict[str, str], arm: int, log: Path) -> Engine:
        port = free_port()
        words = tuple(shlex.split(command.format(port=port, arm=arm)))
        engine = start(Launch(words, real_engine.url(port), log, env, cwd=real_engine.ROOT))
        wait_ready(engine, READY_S)
        return engine

    return begin


def pairs(begin: Begin, load: Load, rounds: int) -> list[list[float]]:
    """Ratios with ÷ without by round, in the order of MEASURES."""
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as rings, \
            tempfile.TemporaryDirectory() as home:  # fmt: skip
        recorder = subprocess.Popen((*PELLUCID, "record", rings), env={**os.environ, "PELLUCID_HOME": home},
                                    stderr=subprocess.DEVNULL)  # fmt: skip
        engines: list[Engine] = []
        try:
            for arm, env in enumerate(({"PELLUCID_DIR": rings}, {"PELLUCID_OFF": "1"})):
                engines.append(begin(env, arm, Path(home) / f"engine{arm}.log"))
            for engine in engines:
                load(engine, 0)     # the first load pays for what is set up late
            return [_pair(engines, load, n) for n in range(rounds)]
        finally:
            for engine in engines:
                stop(engine, 30)
            recorder.terminate()
            recorder.wait()


def _pair(engines: list[Engine], load: Load, n: int) -> list[float]:
    order = (0, 1) if n % 2 == 0 else (1, 0)
    seen = {i: load(engines[i], n + 1) for i in order}
    return [a / b for a, b in zip(seen[0], seen[1], strict=True)]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean, half = statistics.mean(logs), 0.0
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--rounds", type=int, default=6, help="pairs for each placement")
    ask.add_argument("--model", default="tiny-dense")
    ask.add_argument("--command", help="another engine, which is to listen on {port}")
    ask.add_argument("--tokens", action="store_true", help="send token ids and take token ids back")
    ask.add_argument("--requests", type=int, default=16)
    ask.add_argument("--prompt", type=int, default=32)
    ask.add_argument("--output", type=int, default=96)
    asked = ask.parse_args()
    load = Load(asked.model, asked.requests, asked.prompt, asked.output, TOKENS if asked.tokens else TEXT)
    if asked.command:
        found, how = pairs(commanded(asked.command), load, asked.rounds), asked.command
    else:
        found = [p for core in (0, 1) for p in pairs(cpu(asked.model, core), load, asked.rounds)]
        how = f"CPU engine, {real_engine.dtype()}, cores swapped half-way"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {asked.model}, {how}; {load.requests} requests "
          f"at once, {load.prompt} + {load.output} tokens, {len(found)} pairs, load {os.getloadavg()[0]:.1f}")
    for name, ratios in zip(MEASURES, zip(*found, strict=True), strict=True):
        mean, low, high = interval(list(ratios))
        print(f"{name:24} with ÷ without the probe  {mean:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
