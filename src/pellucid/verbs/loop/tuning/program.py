"""Runs an outside proposer: a process that is asked a line and answers a line. What the lines say is in `tune`.

    with program(["python", "my_agent.py"], limit_s=60) as ask:
        answer = ask(brief)          Answer(proposals, done, trouble)

It is never trusted: it has a time for each answer, a size, and a process group that ends with us. After any trouble it
is stopped and not asked again. Its stderr is the user's.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from pellucid.core.errors import AskedWrongly
from pellucid.tune.propose import Answer, Brief
from pellucid.tune.propose.wire import MOST_BYTES, decode, encode

CHUNK_BYTES = 1 << 16
GRACE_S = 2.0          # chosen: to end politely, after its input was closed


class _TooLong(Exception):
    """The time for an answer is over."""


@contextlib.contextmanager
def program(command: Sequence[str], limit_s: float) -> Iterator[Callable[[Brief], Answer]]:
    """Raises AskedWrongly where the command cannot be started."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise AskedWrongly(f"cannot start the proposer {command[0]}: {error.strerror}") from error
    name = PurePath(command[-1]).name or command[0]
    ended = False

    def ask(brief: Brief) -> Answer:
        nonlocal ended
        if ended:
            return Answer((), done=True)
        try:
            answer = decode(_exchange(child, encode(brief), limit_s), name, brief.engine)
        except _TooLong:
            answer = _trouble(f"{name} did not answer in {limit_s:g} s")
        except OSError as error:       # a closed pipe: it is gone
            answer = _trouble(f"{name} does not read what it is asked: {error.strerror}, exit code {child.poll()}")
        if answer.done:
            ended = True
            _stop(child)
        return answer

    try:
        yield ask
    finally:
        _stop(child)


def _trouble(says: str) -> Answer:
    return Answer((), done=True, trouble=(f"{says}. It is not asked again",))


def _exchange(child: subprocess.Popen[bytes], question: bytes, limit_s: float) -> bytes:
    """One line out, one line back; what came until the end of the stream where there is no line end."""
    assert child.stdin is not None and child.stdout is not None
    into, out = child.stdin.fileno(), child.stdout.fileno()
    until, said = time.monotonic() + limit_s, b""
    os.set_blocking(into, False)
    with selectors.DefaultSelector() as ready:
        ready.register(into, selectors.EVENT_WRITE)
        ready.register(out, selectors.EVENT_READ)
        while b"\n" not in said and len(said) <= MOST_BYTES:
            events = ready.select(until - time.monotonic()) if time.monotonic() < until else []
            if not events:
                raise _TooLong
            for key, _ in events:
                if key.fd == into:
                    question = question[os.write(into, question[:CHUNK_BYTES]):]
                    if not question:
                        ready.unregister(into)
                elif not (chunk := os.read(out, CHUNK_BYTES)):
                    return said
                else:
                    said += chunk
    line, end, _ = said.partition(b"\n")
    return line + end


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Its whole group, since it may have started others."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
