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
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Member:
    """A process of an engine's session."""

    pid: int
    name: str          # as the kernel has it, cut at 15 characters
    command: str


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


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


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def members(engine: Engine) -> list[Member]:
    """Every live process of the engine's session, whoever its parent is now."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, state, session = _stat(entry)
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if session == engine.pid and state != "Z":
            found.append(Member(int(entry.name), name, command.strip()))
    return sorted(found, key=lambda m: m.pid)


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
        _kill(member.pid)
    engine.process.wait(timeout=10)
    while members(engine):
        time.sleep(0.05)
    return stubborn


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _stat(entry: Path) -> tuple[str, str, int]:
    """Name, state and session of a process. The name may itself hold blanks and brackets."""
    head, _, tail = (entry / "stat").read_text().rpartition(")")
    fields = tail.split()
    return head.partition("(")[2], fields[0], int(fields[3])


def _last_lines(engine: Engine) -> str:
    lines = engine.launch.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return f"the end of {engine.launch.log}:\n" + "\n".join(lines)
