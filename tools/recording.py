"""A real engine recorded as a user records it: `pellucid run -- <engine>`, traffic, Ctrl-C.

    served = serve("tiny-dense", ("--max-num-seqs", "8"), home, log)     the engine answers
    …traffic to served.url…
    served.end()                                                        processes that had to be killed: none
    served.folder(), findings(served.folder(), home)
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.run import run_folders
from pellucid.testing.engine import Engine, Launch, Member, free_port, start, stop, wait_ready
from pellucid.testing.traffic import Ask, Reply, send
from tools import cpu_ranks, real_engine
from tools.scenarios import SECONDS, Scenario

Say = Callable[[str], None]
STOP_S = 90.0      # the recorder may drain for 60 s after the engine has gone


@dataclass(slots=True)
class Served:
    """An engine under `pellucid run`, ready."""

    engine: Engine
    model: str
    home: Path
    ready_s: float
    runs_before: frozenset[Path]
    stubborn: list[Member] | None = None      # had to be killed; None while it runs

    @property
    def url(self) -> str:
        return self.engine.url

    def end(self, sign: signal.Signals = signal.SIGINT) -> None:
        if self.stubborn is None:
            self.stubborn = stop(self.engine, STOP_S, sign)

    def folder(self) -> Path:
        fresh = [f for f in run_folders(self.home) if f not in self.runs_before]
        if len(fresh) != 1:
            raise RuntimeError(f"expected one new run in {self.home}/runs, found {len(fresh)}; see {self.log()}")
        return fresh[0]

    def log(self) -> Path:
        return self.engine.launch.log


def pellucid(*arguments: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name("pellucid")), *arguments)


def launch(
    model: str, flags: tuple[str, ...], log: Path, prefix: tuple[str, ...] = (), env: Mapping[str, str] | None = None,
    say: Say = lambda _: None, entry: tuple[str, str] = real_engine.SERVER, python: Path = real_engine.PYTHON,
) -> tuple[Engine, float]:  # fmt: skip
    """Starts an engine, behind `prefix`, and waits until it serves; returns it and how long that took. `{url}` in the
    prefix becomes the engine's address."""
    port = free_port()
    prefix = tuple(word.replace("{url}", real_engine.url(port)) for word in prefix)
    command = (*prefix, *real_engine.command(model, port, *flags, entry=entry, python=python))
    say(f"$ {' '.join(command)}")
    environment = {**real_engine.ENVIRONMENT, **(env or {})}
    engine = start(Launch(command, real_engine.url(port), log, environment, cwd=real_engine.ROOT))
    try:
        return engine, wait_ready(engine, real_engine.READY_TIMEOUT_S)
    except BaseException:
        stop(engine, grace_s=5)
        raise


def serve(
    model: str, flags: tuple[str, ...], home: Path, log: Path, say: Say = lambda _: None,
    env: Mapping[str, str] | None = None, entry: tuple[str, str] = real_engine.SERVER,
    python: Path = real_engine.PYTHON,
) -> Served:  # fmt: skip
    """Starts an engine under `pellucid run`."""
    before = frozenset(run_folders(home))
    environment = {**(env or {}), "PELLUCID_HOME": str(home)}
    engine, ready_s = launch(model, flags, log, pellucid("run", "--"), environment, say, entry, python)
    return Served(engine, model, home, ready_s, before)


def record(scenario: Scenario, seed: int, home: Path, log: Path, say: Say) -> tuple[Served, list[Reply]]:
    """One scenario from start to end."""
    before = frozenset(run_folders(home))
    prefix = pellucid("run", *(("--metrics", "{url}") if scenario.page else ()), "--")
    env = {"PELLUCID_HOME": str(home), **(cpu_ranks.environment(home) if scenario.two_ranks else {})}
    engine, ready_s = launch(scenario.model, scenario.flags, log, prefix, env, say)
    served = Served(engine, scenario.model, home, ready_s, before)
    try:
        say(f"the engine serves after {served.ready_s:.0f} s; {SECONDS:.0f} s of traffic follow")
        replies = _traffic(served, scenario, seed)
    finally:
        served.end()
    return served, replies


def _traffic(served: Served, scenario: Scenario, seed: int) -> list[Reply]:
    """The scenario's traffic, after one short request: the first one pays for what the engine sets up late."""
    first = send(served.url, scenario.model, [Ask(0, [5, 6, 7, 8], 4, request_id="warm-up")])
    failed = [r for r in first if not r.ok]
    if failed:
        raise RuntimeError(f"the engine refused the first request: {failed[0].status} {failed[0].error}")
    return send(served.url, scenario.model, scenario.asks(random.Random(seed)), until_s=SECONDS)


def why(folder: Path, home: Path) -> str:
    """What a user reads. It is told the run, not the scenario."""
    return _why(folder, home)


def findings(folder: Path, home: Path) -> set[str]:
    return {finding["id"] for finding in json.loads(_why(folder, home, "--json"))["findings"]}


def _why(folder: Path, home: Path, *more: str) -> str:
    done = subprocess.run(
        pellucid("why", "--run", str(folder), *more),
        env={**os.environ, "PELLUCID_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"pellucid why --run {folder} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
