"""What a guardian starts ends with its owner, however that ends: processes of a shell stand for an engine's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.core.errors import Failed
from pellucid.verbs.launch.descent import Member, alive, members
from pellucid.verbs.launch.guarded import Guarded, start

# A leader with a child, and one that left the session: what an engine's worker and its tracker may be.
FAMILY = ["sh", "-c", "sleep 300 & setsid sleep 301 & wait"]
DEAF = ["sh", "-c", "trap '' INT; while true; do sleep 0.1; done"]
OWNER = """
import sys, time, os
from pathlib import Path
from pellucid.verbs.launch.guarded import start
engine = start(sys.argv[2:], os.environ, Path(sys.argv[1]))
print(engine.pid, engine.guardian.pid, flush=True)
time.sleep(300)
"""


def within(limit_s: float, fact: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if fact():
            return True
        time.sleep(0.05)
    return fact()


def sleepers(tag: str) -> list[str]:
    return [m.command for m in alive() if m.command.endswith(tag)]


def left(engine: Guarded) -> list[Member]:
    assert engine.pid is not None
    return members(engine.pid)


def owner(log: Path, command: list[str]) -> tuple[subprocess.Popen[str], int, int]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(log), *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    engine, guardian = process.stdout.readline().split()
    process.stdout.close()
    return process, int(engine), int(guardian)


def test_an_engine_that_ends_by_itself_gives_its_code(tmp_path: Path) -> None:
    engine = start(["sh", "-c", "echo hello; exit 3"], os.environ, tmp_path / "log")
    assert within(5, lambda: engine.code() is not None)
    assert (engine.code(), engine.end(1)) == (3, 0)
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_command_that_is_not_there_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="cannot start no-such-program: No such file"):
        start(["no-such-program"], os.environ, tmp_path / "log")


@pytest.mark.slow
def test_what_does_not_go_when_asked_is_killed_after_its_grace(tmp_path: Path) -> None:
    engine = start(DEAF, os.environ, tmp_path / "log")
    time.sleep(0.3)
    began = time.monotonic()
    assert engine.end(0.5) >= 1
    assert 0.5 <= time.monotonic() - began < 5
    assert left(engine) == []


@pytest.mark.slow
def test_children_outside_the_session_go_too(tmp_path: Path) -> None:
    engine = start([*FAMILY[:2], FAMILY[2].replace("301", "3017.25")], os.environ, tmp_path / "log")
    assert within(5, lambda: bool(sleepers("sleep 3017.25")))
    engine.cut()
    assert sleepers("sleep 3017.25") == []
    assert left(engine) == []


@pytest.mark.slow
def test_children_of_an_engine_that_died_go_too(tmp_path: Path) -> None:
    engine = start(["sh", "-c", "setsid sleep 3018.25 & sleep 0.3; kill -9 $$"], os.environ, tmp_path / "log")
    assert within(5, lambda: engine.code() is not None)
    assert (engine.code(), sleepers("sleep 3018.25"), engine.end(1)) == (-9, [], 1)


def test_a_killed_owner_leaves_nothing(tmp_path: Path) -> None:
    process, engine, guardian = owner(tmp_path / "log", [*FAMILY[:2], FAMILY[2].replace("301", "3019.25")])
    assert within(5, lambda: bool(sleepers("sleep 3019.25")))
    process.kill()
    process.wait()
    assert within(5, lambda: not members(engine) and not members(guardian) and not sleepers("sleep 3019.25"))


def test_a_killed_guardian_takes_the_session_with_it(tmp_path: Path) -> None:
    engine = start(["sh", "-c", "sleep 300 & wait"], os.environ, tmp_path / "log")
    os.kill(engine.guardian.pid, signal.SIGKILL)
    assert within(5, lambda: engine.code() is not None)
    assert (left(engine), engine.code()) == ([], -9)
    engine.cut()


def test_processes_outside_of_this_container_are_nobodys() -> None:
    assert members(0) == []
