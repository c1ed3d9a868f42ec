"""A real engine for tests and demos: start it, wait until it serves, stop it, and prove that nothing stays behind.

    engine = start(Launch(command=("python", "-m", …), url="http://127.0.0.1:40123", log=tmp / "engine.log"))
    wait_ready(engine, timeout_s=180)
    …
    stop(engine)       # SIGINT, then SIGKILL to whatever is left; returns what had to be killed

The engine gets a session of its own, so its processes are found by session id even after their parent has died.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.verbs.launch.descent import Member, kill
from pellucid.verbs.launch.descent import members as session_members
from pellucid.verbs.launch.serving import free_port, healthy

__all__ = ["Engine", "EngineDied", "Launch", "Member", "free_port", "healthy", "members", "start", "stop", "wait_ready"]
LOG_TAIL_LINES = 30


class EngineDied(Exception):
    """The engine ended, or did not serve in time; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Launch:
    command: tuple[str, ...]
    url: str
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)   # added to the environment this process has
    health: str = "/health"
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    launch: Launch
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return self.launch.url


def start(launch: Launch) -> Engine:
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    with launch.log.open("wb") as log:
        process = subprocess.Popen(
            launch.command,
            env={**os.environ, **launch.env},
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Engine(launch, process)


def wait_ready(engine: Engine, timeout_s: float) -> float:
    """Seconds until the health endpoint said yes. Raises EngineDied with the log's last lines."""
    began = time.monotonic()
    while not healthy(engine.url + engine.launch.health):
        waited_s = time.monotonic() - began
        if engine.process.poll() is not None:
            raise EngineDied(f"the engine ended with code {engine.process.returncode} at start; {_last_lines(engine)}")
        if waited_s > timeout_s:
            raise EngineDied(f"the engine does not serve after {waited_s:.0f} s; {_last_lines(engine)}")
        time.sleep(0.2)
    return time.monotonic() - began


def members(engine: Engine) -> list[Member]:
    """Every live process of the engine's session, whoever its parent is now."""
    return session_members(engine.pid)


def stop(engine: Engine, grace_s: float = 20.0, sign: signal.Signals = signal.SIGINT) -> list[Member]:
    """Asks the leader to end, then kills the rest of the session. Returns what had to be killed; empty is clean.

    Drain first: an engine with open streams may wait for them until `grace_s` is over.
    """
    if engine.process.poll() is None:
        engine.process.send_signal(sign)
    deadline = time.monotonic() + grace_s
    while members(engine) and time.monotonic() < deadline:
        engine.process.poll()
        time.sleep(0.1)
    stubborn = members(engine)
    for member in stubborn:
        kill(member.pid)
    engine.process.wait(timeout=10)
    while members(engine):
        time.sleep(0.05)
    return stubborn


def _last_lines(engine: Engine) -> str:
    lines = engine.launch.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return f"the end of {engine.launch.log}:\n" + "\n".join(lines)
