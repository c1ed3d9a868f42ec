"""How fast the engine's own scheduler runs on virtual time: through the pipe, and driven in its own process without it.

    .venv/bin/python -m bench.loop.scheduler_speed [RUNNING] [ROUNDS]

Requests of 500 + 400 tokens, all at once, all running: after the prompts, steps of RUNNING decodes each. The two are
measured in turns, each in a process of its own that has imported the engine before its first turn:

    pipe  bare  bare  pipe  pipe  bare …       steps/s of a turn: all its steps over all its time

`bare` is the loop that a program in the engine's own process would write, without lines, times and accounts. There is
no goal: the engine's code is what it is, and what the pipe adds is shown.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pellucid.collect.vllm.schedule import Request, Schedules
from pellucid.collect.vllm.schedule_settings import Settings
from tools.real_engine import PYTHON, ROOT, environment

PROMPT_TOKENS, OUTPUT_TOKENS, BLOCK_TOKENS, BLOCKS = 500, 400, 16, 40_000
STEP_NS = 20_000_000
BARE = Path(__file__).parent / "bare_scheduler.py"


@dataclass(frozen=True, slots=True)
class Turn:
    steps_count: int
    took_s: float

    def steps_per_s(self) -> float:
        return self.steps_count / self.took_s


def pipe(schedules: Schedules, running: int) -> tuple[Turn, str]:
    """From the first step to the last: settings and requests are sent before, and are the same for both. And the
    engine's version."""
    at_s: list[float] = []

    def step_ns(_: object) -> int:
        at_s.append(time.perf_counter())
        return STEP_NS

    settings = Settings(running, 8192, 8192, BLOCKS, BLOCK_TOKENS)
    found = schedules.ask(settings, [Request(0, PROMPT_TOKENS, OUTPUT_TOKENS)] * running, step_ns)
    return Turn(len(at_s) - 1, at_s[-1] - at_s[0]), found.engine_version


def bare(lines: subprocess.Popen[str], running: int) -> Turn:
    to, back = _ends(lines)
    to.write(f"{running}\n")
    to.flush()
    told = json.loads(back.readline())
    return Turn(told["steps_count"], told["took_s"])


def _ends(lines: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert lines.stdin is not None and lines.stdout is not None
    return lines.stdin, lines.stdout


def told(name: str, turns: list[Turn]) -> str:
    each = sorted(turn.steps_per_s() for turn in turns)
    middle = statistics.median(each)
    return (f"{name:<34} {middle:8.1f} steps/s median of {len(each)} turns, {each[0]:.1f} to {each[-1]:.1f}; "
            f"{1e3 / middle:.2f} ms a step, {turns[0].steps_count} steps a turn")  # fmt: skip


def main(running: int = 256, rounds: int = 6) -> int:
    command = [str(PYTHON), str(BARE), *map(str, (PROMPT_TOKENS, OUTPUT_TOKENS, BLOCKS, BLOCK_TOKENS))]
    turns: dict[str, list[Turn]] = {"pipe": [], "bare": []}
    loads = [os.getloadavg()[0]]
    with (
        Schedules(str(PYTHON), environment()) as schedules,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                         env={**environment(), "PELLUCID_OFF": "1"}) as lines,
    ):  # fmt: skip
        bare(lines, 8)
        _, version = pipe(schedules, 8)
        for number in range(rounds):
            for which in ("pipe", "bare") if number % 2 == 0 else ("bare", "pipe"):
                turns[which].append(pipe(schedules, running)[0] if which == "pipe" else bare(lines, running))
            loads.append(os.getloadavg()[0])
        _ends(lines)[0].close()
    ratios = sorted(p.steps_per_s() / b.steps_per_s() for p, b in zip(turns["pipe"], turns["bare"], strict=True))
    load = f"load {min(loads):.1f} to {max(loads):.1f}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {load}, engine {version}, "
          f"{running} running, {PROMPT_TOKENS} + {OUTPUT_TOKENS} tokens, block {BLOCK_TOKENS}, "
          "prefix caching on")  # fmt: skip
    print(told("through the pipe", turns["pipe"]))
    print(told("without it", turns["bare"]))
    print(f"{'through the pipe / without it':<34} {statistics.median(ratios):8.3f} median of pairs, "
          f"{ratios[0]:.3f} to {ratios[-1]:.3f}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
