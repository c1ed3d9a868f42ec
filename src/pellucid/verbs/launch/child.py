"""Starting a program as if the user had started it: its terminal, its signals, its exit code.

    with signals_held() as before:
        child = start(["python", "-m", "engine"], environ, before)
        code = wait(child, on_tick)          # 0, 3, or 128 + signal as a shell has it

    Ctrl-C in the terminal    the kernel sends SIGINT to the foreground group: the child has it already
    kill -INT <launcher>      only the launcher has it: passed on

The two differ in `si_code`, so the child sees each signal once. (A `kill` of the whole group does reach it twice.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

Signals = set[signal.Signals]

HELD: Signals = {
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD,
}  # fmt: skip
FROM_TERMINAL: Signals = {signal.SIGINT, signal.SIGQUIT}
TICK_S = 0.5


@contextlib.contextmanager
def signals_held() -> Iterator[Signals]:
    """Holds signals for `wait` to fetch, so that none is lost between two looks. Yields the mask there was."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield {signal.Signals(s) for s in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: Sequence[str], environ: Mapping[str, str], mask: Signals) -> subprocess.Popen[bytes]:
    """The user's program, in our process group, with our stdin, stdout and stderr. Raises OSError."""

    def unmask() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return subprocess.Popen(list(command), env=dict(environ), preexec_fn=unmask)  # no threads here yet


def wait(child: subprocess.Popen[bytes], on_tick: Callable[[], None]) -> int:
    """Waits for the end of the child, passing signals on; `on_tick` runs about twice a second."""
    while child.poll() is None:
        info = signal.sigtimedwait(HELD, TICK_S)
        if info is None or info.si_signo == signal.SIGCHLD:
            on_tick()
        elif not (info.si_code > 0 and info.si_signo in FROM_TERMINAL):
            child.send_signal(info.si_signo)
    return exit_code(child.returncode)


def wait_or_interrupt(child: subprocess.Popen[bytes], limit_s: float) -> str:
    """Waits for a child of our own: `ended`, `interrupted` by a signal to us, or `late`."""
    waited_s = 0.0
    while child.poll() is None:
        info = signal.sigtimedwait(HELD, TICK_S)
        if info is None:
            waited_s += TICK_S
            if waited_s >= limit_s:
                return "late"
        elif info.si_signo in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            return "interrupted"
    return "ended"


def exit_code(returncode: int) -> int:
    """Popen's code → a shell's: a child killed by signal 9 gives 137."""
    return 128 - returncode if returncode < 0 else returncode


def cannot_start_code(error: OSError) -> int:
    """As shells have it: 127 no such program, 126 one that cannot be run."""
    return 127 if isinstance(error, FileNotFoundError) else 126


def environment_without(environ: Mapping[str, str], *names: str) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k not in names}


def detached(command: Sequence[str], log_fd: int, keep_fds: Sequence[int]) -> subprocess.Popen[bytes]:
    """A program of ours that a Ctrl-C in the terminal does not reach: its own session, no stdin, output to a log.

    It starts with SIGTERM held, so that one sent before it is ready waits instead of killing it half-born.
    """
    return subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=log_fd, stderr=log_fd, start_new_session=True,
        pass_fds=tuple(keep_fds), env=environment_without(os.environ, "PELLUCID_DIR"),
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM}),  # else it inherits HELD
    )  # fmt: skip
