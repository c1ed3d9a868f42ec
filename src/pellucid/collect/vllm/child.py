"""A child process in the engine's environment that speaks lines: started, asked, read with a limit, and always ended.

    with Child(python, "pellucid_probe.vllm.offline.schedule", environ) as child:
        child.send(b'{"max_num_seqs": 8, …}\\n', limit_s=120)
        child.line(limit_s=120)          → b'{"kind": "ready", …}', or None when it has closed its end

What it prints to stderr is kept, for the message when it dies. It is told PELLUCID_OFF=1, as nothing is served there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self

from pellucid.core.errors import CannotAnswer, Failed

READ_BYTES = 1 << 16
KEPT_BYTES = 1 << 14       # of the end of stderr
SHOWN_LINES = 5
END_LIMIT_S = 5.0


class Child:
    """Raises CannotAnswer where it cannot be started."""

    def __init__(self, python: str, module: str, environ: Mapping[str, str]) -> None:
        self.name = f"{python} -m {module}"
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`; a pipe nobody reads fills)
        self._lines: deque[bytes] = deque()
        self._begun = b""                # of a line
        try:
            # A group of its own: engines start processes themselves.
            self._process = subprocess.Popen(
                [python, "-m", module], env={**environ, "PELLUCID_OFF": "1"}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._stderr.close()
            raise CannotAnswer(f"cannot run {python}: {error.strerror}. Try: --engine-python PATH") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._out, select.POLLIN)
        self._writable.register(self._in, select.POLLOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def send(self, data: bytes, limit_s: float) -> None:
        """What it does not read because it is gone is lost; `line` says so. Raises Failed when it does not read."""
        deadline_s, rest = time.monotonic() + limit_s, memoryview(data)
        while rest:
            if not self._writable.poll(max(deadline_s - time.monotonic(), 0) * 1e3):
                raise Failed(f"{self.name} has read nothing for {limit_s:.0f} s{self.last_lines()}")
            try:
                rest = rest[os.write(self._in.fileno(), rest) :]
            except BrokenPipeError:
                return
            except BlockingIOError:
                continue

    def line(self, limit_s: float) -> bytes | None:
        """The next, without its end; None where there are no more. Raises Failed when it is silent."""
        deadline_s = time.monotonic() + limit_s
        while not self._lines:
            if not self._readable.poll(max(deadline_s - time.monotonic(), 0) * 1e3):
                raise Failed(f"{self.name} has been silent for {limit_s:.0f} s{self.last_lines()}")
            data = os.read(self._out.fileno(), READ_BYTES)
            if not data:
                return None
            *whole, self._begun = (self._begun + data).split(b"\n")
            self._lines.extend(whole)
        return self._lines.popleft()

    def exit_code(self) -> int | None:
        """After it closed its end; None where it does not end by itself."""
        try:
            return self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return None

    def stderr(self) -> str:
        """The end of what it printed."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(size - KEPT_BYTES, 0)
        return os.pread(self._stderr.fileno(), size - start, start).decode(errors="replace")

    def last_lines(self) -> str:
        lines = [line for line in self.stderr().splitlines() if line.strip()][-SHOWN_LINES:]
        return ". Its last lines:\n  " + "\n  ".join(lines) if lines else "; it printed nothing"

    def end(self) -> None:
        """Kills it and what it started, if they are still there."""
        self._in.close()
        self._out.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()
