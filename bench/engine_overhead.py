"""What the probe costs a real engine: the paired ratio of ITL and throughput, with and without it.

    .venv/bin/python -m bench.engine_overhead [--rounds 6] [--model tiny-dense]

Two servers are up at once, one core each, one with the probe and a recorder, one without; they are loaded in turn, the
same load, in ABBA order. Then both start again with the cores swapped, since the core and the place in the order are
worth more than the probe. The ratio's interval is a t interval over the logarithms of the pairs.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from scipy import stats

from pellucid.testing.engine import Engine, stop
from pellucid.testing.traffic import Ask, send
from tools import real_engine
from tools.recording import launch, pellucid

FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "16", "--load-format", "dummy")
REQUESTS, PROMPT, OUTPUT = 16, 32, 96


def load(engine: Engine, model: str, seed: int) -> tuple[float, float]:
    """One burst of REQUESTS at once. → (median gap between tokens in ns, output tokens per s)."""
    pick = random.Random(seed)
    asks = [Ask(0.0, [pick.randrange(3, 4000) for _ in range(PROMPT)], OUTPUT) for _ in range(REQUESTS)]
    replies = send(engine.url, model, asks)
    gaps, first, last, tokens = [], [], [], 0
    for reply in replies:
        if not reply.ok:
            raise RuntimeError(f"{reply.status} {reply.error}")
        times = [a.time_ns for a in reply.arrivals]
        gaps += [b - a for a, b in pairwise(times)]
        first.append(reply.sent_ns)
        last.append(reply.end_ns)
        tokens += reply.output_tokens or 0
    return statistics.median(gaps), tokens / ((max(last) - min(first)) / 1e9)


def pairs(model: str, probe_core: int, rounds: int) -> list[tuple[float, float]]:
    """Ratios with ÷ without: (ITL, throughput) per round."""
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as rings, \
            tempfile.TemporaryDirectory() as home:  # fmt: skip
        recorder = subprocess.Popen(pellucid("record", rings), env={**os.environ, "PELLUCID_HOME": home},
                                    stderr=subprocess.DEVNULL)  # fmt: skip
        engines: list[Engine] = []
        try:
            for core, env in ((probe_core, {"PELLUCID_DIR": rings}), (1 - probe_core, {"PELLUCID_OFF": "1"})):
                bind = {"VLLM_CPU_OMP_THREADS_BIND": str(core)}
                engines.append(launch(model, FLAGS, Path(home) / f"engine{core}.log", env={**env, **bind})[0])
            for engine in engines:
                load(engine, model, 0)     # the first load pays for what is set up late
            return [_pair(engines, model, n) for n in range(rounds)]
        finally:
            for engine in engines:
                stop(engine, 30)
            recorder.terminate()
            recorder.wait()


def _pair(engines: list[Engine], model: str, n: int) -> tuple[float, float]:
    order = (0, 1) if n % 2 == 0 else (1, 0)
    seen = {i: load(engines[i], model, n + 1) for i in order}
    return seen[0][0] / seen[1][0], seen[0][1] / seen[1][1]


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
    asked = ask.parse_args()
    found = pairs(asked.model, 0, asked.rounds) + pairs(asked.model, 1, asked.rounds)
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {asked.model}, {real_engine.dtype()}, {REQUESTS} "
          f"requests at once of {PROMPT} + {OUTPUT} tokens, {len(found)} pairs, cores swapped half-way, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    for name, ratios in (("ITL p50", [f[0] for f in found]), ("output tokens/s", [f[1] for f in found])):
        mean, low, high = interval(ratios)
        print(f"{name:16} with ÷ without the probe  {mean:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
