"""What the probe costs a real engine: the paired ratio of token gaps and throughput, looking and paused.

    .venv/bin/python -m bench.engine_overhead [--rounds 24] [--model tiny-dense]
    .venv/bin/python -m bench.engine_overhead --null       both arms looking: what the method makes of no difference
    python3 -m bench.engine_overhead --model NAME --command 'python3 -m vllm.entrypoints.cli.main serve … --port {port}'

One server with the probe and a recorder, loaded again and again with the same kind of burst; in every second one the
probe is paused (the file `pause` in its folder), in ABBA order. Two servers side by side were tried first: a start of
an engine is faster or slower than the next by more than the probe could be. What a pause does not take away is the
wrappers' own call, tenths of a microsecond each. The ratio's interval is a t interval over the logarithms of the pairs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pellucid_probe.process import FLUSH_EVERY_S, PAUSE
from scipy import stats

from pellucid.testing.engine import Engine, Launch, free_port, start, stop, wait_ready
from pellucid.testing.traffic import TEXT, TOKENS, Ask, Reply, send
from tools import real_engine
from tools.recording import launch

FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "16", "--load-format", "dummy")
READY_S = 400.0
PELLUCID = (sys.executable, "-c", "import sys; from pellucid.surface.cli import main; sys.exit(main())")
SETTLE_S = 3 * FLUSH_EVERY_S
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
        return self.measures(self.send(engine, seed))

    def send(self, engine: Engine, seed: int) -> list[Reply]:
        """Raises RuntimeError when a request failed."""
        pick = random.Random(seed)
        asks = [
            Ask(0.0, [pick.randrange(3, 4000) for _ in range(self.prompt)], self.output, path=self.path)
            for _ in range(self.requests)
        ]
        replies = send(engine.url, self.model, asks)
        failed = next((r for r in replies if not r.ok), None)
        if failed is not None:
            raise RuntimeError(f"{failed.status} {failed.error}")
        return replies

    def measures(self, replies: list[Reply]) -> tuple[float, float, float]:
        """The MEASURES: ns, ns, per s."""
        gaps = sorted(b.time_ns - a.time_ns for r in replies for a, b in pairwise(r.arrivals))
        took_s = (max(r.end_ns for r in replies) - min(r.sent_ns for r in replies)) / 1e9
        return statistics.median(gaps), gaps[int(0.99 * len(gaps))], self.requests * self.output / took_s


def begin(asked: argparse.Namespace, env: dict[str, str], log: Path) -> Engine:
    """An engine that serves."""
    if not asked.command:
        return launch(asked.model, FLAGS, log, env=env)[0]
    port = free_port()
    words = tuple(shlex.split(asked.command.format(port=port)))
    engine = start(Launch(words, real_engine.url(port), log, env, cwd=real_engine.ROOT))
    wait_ready(engine, READY_S)
    return engine


@contextlib.contextmanager
def recorded(asked: argparse.Namespace) -> Iterator[tuple[Engine, Path | None]]:
    """An engine that serves and is recorded, and the file that pauses its probe; None where it is to look always."""
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as rings, \
            tempfile.TemporaryDirectory() as home:  # fmt: skip
        recorder = subprocess.Popen((*PELLUCID, "record", rings), env={**os.environ, "PELLUCID_HOME": home},
                                    stderr=subprocess.DEVNULL)  # fmt: skip
        engine: Engine | None = None
        try:
            engine = begin(asked, {"PELLUCID_DIR": rings}, Path(home) / "engine.log")
            yield engine, None if asked.null else Path(rings) / PAUSE
        finally:
            if engine is not None:
                stop(engine, 30)
            recorder.terminate()
            recorder.wait()


def pairs(asked: argparse.Namespace, load: Load) -> list[list[float]]:
    """Ratios looking ÷ paused by round, in the order of MEASURES."""
    with recorded(asked) as (engine, pause):
        for seed in (0, 1):
            load(engine, seed)     # the first loads pay for what is set up late
        return [_pair(engine, load, n, pause) for n in range(asked.rounds)]


def turn(pause: Path | None, paused: bool) -> None:
    """Has the probe pause or look, and waits until it does: it looks for the file as often as it empties its outbox."""
    if pause is not None and paused:
        pause.touch()
    elif pause is not None:
        pause.unlink(missing_ok=True)
    time.sleep(SETTLE_S)


def _pair(engine: Engine, load: Load, n: int, pause: Path | None) -> list[float]:
    seen: dict[bool, tuple[float, float, float]] = {}
    for paused in (False, True) if n % 2 == 0 else (True, False):
        turn(pause, paused)
        seen[paused] = load(engine, n + 2)
    return [a / b for a, b in zip(seen[False], seen[True], strict=True)]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean, half = statistics.mean(logs), 0.0
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def report(found: list[list[float]], null: bool, digits: int) -> None:
    """A line for each of MEASURES."""
    other = "looking" if null else "paused"
    for name, ratios in zip(MEASURES, zip(*found, strict=True), strict=True):
        mean, low, high = (f"{value:.{digits}f}" for value in interval(list(ratios)))
        print(f"{name:24} looking ÷ {other}  {mean}  (95 % interval {low} to {high})")


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--rounds", type=int, default=24, help="pairs")
    ask.add_argument("--null", action="store_true", help="look in both arms")
    ask.add_argument("--model", default="tiny-dense")
    ask.add_argument("--command", help="another engine, which is to listen on {port}")
    ask.add_argument("--tokens", action="store_true", help="send token ids and take token ids back")
    ask.add_argument("--requests", type=int, default=16)
    ask.add_argument("--prompt", type=int, default=32)
    ask.add_argument("--output", type=int, default=96)
    asked = ask.parse_args()
    load = Load(asked.model, asked.requests, asked.prompt, asked.output, TOKENS if asked.tokens else TEXT)
    found = pairs(asked, load)
    how = asked.command or f"CPU engine, {real_engine.dtype()}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {asked.model}, {how}; {load.requests} requests "
          f"at once, {load.prompt} + {load.output} tokens, {len(found)} pairs, load {os.getloadavg()[0]:.1f}")
    report(found, asked.null, 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
