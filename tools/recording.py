"""Records one scenario as a user would: `pellucid run -- <engine>`, its traffic, Ctrl-C.

    recorded = record(SCENARIOS["few-blocks"], seed=7, home=Path("~/.pellucid"), log=Path("engine.log"), say=print)
    recorded.folder, recorded.replies
    findings(recorded.folder, home)    # {"kv.preemption_storm"}, from `pellucid why --json`
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.run import run_folders
from pellucid.testing.engine import Engine, Launch, Member, free_port, start, stop, wait_ready
from pellucid.testing.traffic import Ask, Reply, send
from tools import real_engine
from tools.scenarios import SECONDS, Scenario

Say = Callable[[str], None]
STOP_S = 90.0      # the recorder may drain for 60 s after the engine has gone


@dataclass(frozen=True, slots=True)
class Recorded:
    folder: Path
    replies: list[Reply]
    ready_s: float
    exit_code: int
    stubborn: list[Member]     # processes that had to be killed; empty is clean


def pellucid(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pellucid.surface.cli", *arguments)


def record(scenario: Scenario, seed: int, home: Path, log: Path, say: Say) -> Recorded:
    port = free_port()
    command = pellucid("run", "--", *real_engine.command(scenario.model, port, *scenario.flags))
    say("pellucid " + " ".join(command[3:]))
    before = set(run_folders(home))
    environment = {**real_engine.ENVIRONMENT, "PELLUCID_HOME": str(home)}
    engine = start(Launch(command, real_engine.url(port), log, environment))
    try:
        ready_s = wait_ready(engine, real_engine.READY_TIMEOUT_S)
        say(f"the engine serves after {ready_s:.0f} s; {SECONDS:.0f} s of traffic follow")
        replies = _traffic(engine, scenario, seed)
    finally:
        stubborn = stop(engine, STOP_S)
    fresh = [f for f in run_folders(home) if f not in before]
    if len(fresh) != 1:
        raise RuntimeError(f"expected one new run in {home}/runs, found {len(fresh)}; see {log}")
    return Recorded(fresh[0], replies, ready_s, engine.process.returncode, stubborn)


def _traffic(engine: Engine, scenario: Scenario, seed: int) -> list[Reply]:
    """The scenario's traffic, after one short request: the first one pays for what the engine sets up late."""
    first = send(engine.url, scenario.model, [Ask(0, [5, 6, 7, 8], 4, request_id="warm-up")])
    failed = [r for r in first if not r.ok]
    if failed:
        raise RuntimeError(f"the engine refused the first request: {failed[0].status} {failed[0].error}")
    return send(engine.url, scenario.model, scenario.asks(random.Random(seed)), until_s=SECONDS)


def why(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """What a user reads. It is told the run, not the scenario."""
    return _why(folder, home)


def findings(folder: Path, home: Path) -> set[str]:
    done = _why(folder, home, "--json")
    return {finding["id"] for finding in json.loads(done.stdout)["findings"]}


def _why(folder: Path, home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        pellucid("why", "--run", folder.name, *more),
        env={**os.environ, "PELLUCID_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"pellucid why --run {folder.name} ended with {done.returncode}: {done.stderr.strip()}")
    return done
