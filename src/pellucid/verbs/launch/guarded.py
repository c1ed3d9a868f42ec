"""An engine that ends with us, whatever ends us: started and watched through a guardian (`guardian.py`).

    engine = start(["python", "-m", "engine", …], environ, Path("engine.log"))
    engine.pid                 its first process, and its session
    engine.code()              None while it runs
    engine.end(grace_s=20)     0: it went by itself; otherwise how many processes had to be killed
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.errors import Failed
from pellucid.verbs.launch.descent import kill_all, members

GUARDIAN = (sys.executable, "-m", "pellucid.verbs.launch.guardian")
START_LIMIT_S = 20.0     # a Python alone starts in a fraction of a second
KILL_LIMIT_S = 15.0      # above what the guardian gives killed processes to go


@dataclass(slots=True)
class Guarded:
    guardian: subprocess.Popen[bytes]
    log: Path
    pid: int | None = None                   # None until the guardian has started it
    ended: dict[str, Any] | None = None      # the guardian's last word
    _heard: bytes = field(default=b"")

    def code(self) -> int | None:
        """Exit code of the engine as Popen has it, None while it runs."""
        if self.ended is None and self._line(0.0) is None and self.guardian.poll() is not None:
            self._without_guardian()
        return None if self.ended is None else int(self.ended["code"])

    def end(self, grace_s: float) -> int:
        """Asks it to end and waits for that. How many processes had to be killed. Twice is once."""
        if self.ended is None:
            with contextlib.suppress(OSError):
                _pipe(self.guardian.stdin).write(b"end %.1f\n" % grace_s)
                _pipe(self.guardian.stdin).flush()
            deadline = time.monotonic() + grace_s + KILL_LIMIT_S
            while self.code() is None and time.monotonic() < deadline:
                self._line(0.2)
        self.cut()
        return int(self.ended["killed"]) if self.ended else 0

    def cut(self) -> None:
        """Lets go of the lifeline: whatever is left is killed at once."""
        with contextlib.suppress(OSError):
            _pipe(self.guardian.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.guardian.wait(KILL_LIMIT_S)
        self.code()
        _pipe(self.guardian.stdout).close()

    def _without_guardian(self) -> None:
        """Somebody killed it: the kernel has ended the engine's first process, the others are ours to end."""
        session = self.pid
        if session is None:
            self.ended = {"code": -signal.SIGKILL, "killed": 0}
            return
        left = members(session)
        kill_all(lambda: members(session))
        self.ended = {"code": -signal.SIGKILL, "killed": len(left)}

    def _line(self, wait_s: float) -> dict[str, Any] | None:
        out = _pipe(self.guardian.stdout)
        if out.closed:
            return None
        while b"\n" not in self._heard:
            if not select.select([out], [], [], wait_s)[0]:
                return None
            data = os.read(out.fileno(), 4096)
            if not data:
                return None
            self._heard += data
        line, self._heard = self._heard.split(b"\n", 1)
        said: dict[str, Any] = json.loads(line)
        if "code" in said:
            self.ended = said
        elif "error" in said:
            self.ended = {"code": 127, "killed": 0}      # as a shell has it
        return said


def start(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Guarded:
    """Its output goes to the end of `log`. Raises Failed where it cannot be started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        guardian = subprocess.Popen(GUARDIAN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out,
                                    start_new_session=True)  # fmt: skip
    engine = Guarded(guardian, log)
    with contextlib.suppress(OSError):      # it has ended: its silence is told below
        _pipe(guardian.stdin).write(json.dumps({"command": list(command), "env": dict(environ)}).encode() + b"\n")
        _pipe(guardian.stdin).flush()
    said = engine._line(START_LIMIT_S)
    if said is None or "pid" not in said:
        engine.cut()
        raise Failed(f"cannot start {command[0]}: {said['error'] if said else f'its guardian said nothing; see {log}'}")
    engine.pid = int(said["pid"])
    return engine


def _pipe(pipe: Any) -> Any:
    assert pipe is not None      # both were asked for
    return pipe
