"""A program that starts another one and never lets it outlive its owner, not even when that is killed with -9.

    owner ══ stdin, the lifeline ══▶ guardian ── engine (a session of its own) ── its processes
          ◀═ stdout, one JSON a line ══

    ▶ {"command": ["python", …], "env": {…}}      the engine's environment is not ours
    ◀ {"pid": 4711}            the engine's process and session, or {"error": "No such file …"}
    ▶ end 20                   ask it to end (SIGINT), and kill what is left after 20 s
    ◀ {"code": 0, "killed": 0} it is over, and how many processes had to be killed at the end

The lifeline's end without a word means that the owner is gone: everything is killed at once. What the engine left
behind becomes this process's child (it is a subreaper), so nothing gets away by leaving its session. Should this
process be killed, the kernel kills the engine's first process, and the owner, who sees it, the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from pellucid.verbs.launch.descent import descendants, kill_all

LOOK_S = 0.1
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36      # linux/prctl.h
LIFELINE = 0


def main() -> int:
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)      # the lifeline says when it is over
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, asked = os.getpid(), _first_line()
    if not asked:
        return 1      # the owner went before it had said anything

    def in_the_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_DFL)
        if os.getppid() != ours:       # died between fork and here: the signal would never come
            os._exit(1)

    try:
        out = sys.stderr.fileno()
        engine = subprocess.Popen(asked["command"], env=asked["env"], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  start_new_session=True, preexec_fn=in_the_child)  # fmt: skip
    except OSError as error:
        _tell({"error": error.strerror or str(error)})
        return 1
    _tell({"pid": engine.pid})
    code = Ward(engine.pid).watch()
    left = descendants(ours)
    kill_all(lambda: descendants(ours))
    _tell({"code": -signal.SIGKILL if code is None else code, "killed": len(left)})
    return 0


@dataclass(slots=True)
class Ward:
    """The engine, and what is known of its end."""

    pid: int
    code: int | None = None              # as Popen has it
    deadline_s: float | None = None      # monotonic; set once it was asked to end

    def watch(self) -> int | None:
        """Until it has ended or has to be killed. Its exit code, None where it is still there."""
        while not self.over():
            if self.deadline_s is not None:
                time.sleep(LOOK_S)
            elif select.select([LIFELINE], [], [], LOOK_S)[0]:
                words = os.read(LIFELINE, 4096).split()
                if not words:
                    return None
                self.deadline_s = time.monotonic() + float(words[-1])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGINT)
        return self.code

    def over(self) -> bool:
        self.reap()
        if self.deadline_s is None:
            return self.code is not None
        return time.monotonic() > self.deadline_s or (self.code is not None and not descendants(os.getpid()))

    def reap(self) -> None:
        """Takes in everybody who ended; orphans of the engine are our children."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.code = os.waitstatus_to_exitcode(status)


def _first_line() -> dict[str, Any]:
    """Read byte by byte: what follows it is for `watch`. Empty where the lifeline ends before."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(LIFELINE, 1)
        if not byte:
            return {}
        line += byte
    asked: dict[str, Any] = json.loads(line)
    return asked


def _tell(said: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
