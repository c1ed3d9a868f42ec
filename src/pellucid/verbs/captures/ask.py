"""Asks a running engine for a capture and waits until its workers have written their traces.

    asked = ask(rings, Wish(steps=10))
    answers = wait(asked, stop)      {"worker-4711": Answer(state="done", steps=[812, …, 821], …)}

The engine is reached through the probe's folder alone (pellucid_probe/capture.py): no port, no restart. One capture at
a time: a lock on the folder is held until the answers are there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pellucid_probe.capture import ASK, FOLDER, MOST_STEPS

from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.units import S_NS

POLL_S = 0.1
LOOK_S = 3.0            # the probe looks about ten times a second; a busy host is slower
FINISHED = ("done", "failed", "refused")
WRITE_S = 120.0         # for writing a trace, after the steps are over


@dataclass(frozen=True, slots=True)
class Wish:
    steps: int = 10
    within_s: float = 30.0       # an engine without work begins no step
    shapes: bool = False         # of operators; costs more while it runs


class Answer(msgspec.Struct, frozen=True):
    """What a worker said. Fields that a state does not have yet are None."""

    id: str
    state: str                   # waiting, writing, done, failed or refused
    reason: str = ""
    pid: int | None = None
    steps: list[int] = []
    start_ns: int | None = None              # CLOCK_MONOTONIC
    start_wall_ns: int | None = None         # the same moment
    start_cost_ns: int | None = None         # for how long the engine was held up
    stop_ns: int | None = None
    stop_cost_ns: int | None = None
    export_ns: int | None = None
    trace_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    rings: Path
    id: str
    until_ns: int
    workers: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.rings / FOLDER / self.id

    def trace(self, worker: str) -> Path:
        return self.folder / f"{worker}.trace.json"


@contextlib.contextmanager
def only_one(rings: Path) -> Iterator[None]:
    """Holds the folder's captures. Raises Failed while somebody else does."""
    fd = os.open(rings / "capture.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failed("a capture of this engine is under way. One at a time: wait for it") from error
        yield
    finally:
        os.close(fd)


def ask(rings: Path, wish: Wish, first_step: int = 0, clock: Clock = monotonic_ns) -> Asked:
    """Raises AskedWrongly for a wish no probe would take, CannotAnswer where no worker carries one."""
    check(wish)
    workers = tuple(sorted(live_workers(rings)))
    if not workers:
        raise CannotAnswer(f"no running worker has a probe in {rings}. Start the engine with it: pellucid run -- …")
    asked = Asked(rings, f"c{secrets.token_hex(6)}", clock() + int(wish.within_s * S_NS), workers)
    text = {"id": asked.id, "steps": wish.steps, "first_step": first_step, "until_ns": asked.until_ns,
            "shapes": wish.shapes}  # fmt: skip
    new = rings / f"{ASK}.new"
    new.write_text(json.dumps(text))
    new.replace(rings / ASK)
    return asked


def check(wish: Wish) -> None:
    if not 1 <= wish.steps <= MOST_STEPS:
        raise AskedWrongly(f"--steps {wish.steps}: a capture has 1 to {MOST_STEPS} steps")


def live_workers(rings: Path) -> list[str]:
    """Names of the processes that run steps and are alive, as the probe described them."""
    found = []
    for path in rings.glob("*-*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            described: dict[str, Any] = json.loads(path.read_text())
            if "worker" in described["role"].split("+") and described["state"] == "on" and _alive(described["pid"]):
                found.append(path.stem)
    return found


def wait(asked: Asked, stop: Callable[[], bool], clock: Clock = monotonic_ns) -> dict[str, Answer]:
    """Worker → its last word, when all are through, nobody can be any more, or `stop()`. Raises CannotAnswer when no
    worker looks: its probe is older than captures.

    A worker that has not begun to write soon after the time was up waits for a step: only the thread that runs steps
    can stop the profiler, and an idle engine begins none.
    """
    looked_by = clock() + int(LOOK_S * S_NS)
    stopped_by = asked.until_ns + int(2 * LOOK_S * S_NS)
    written_by = asked.until_ns + int(WRITE_S * S_NS)
    while True:
        answers = {w: a for w in asked.workers if (a := _answer(asked, w)) is not None}
        if len(answers) == len(asked.workers) and all(a.state in FINISHED for a in answers.values()):
            return answers
        now = clock()
        if not answers and now > looked_by:
            raise CannotAnswer("no worker answers: is its probe older than captures? Start the engine with this one")
        idle = now > stopped_by and all(a.state != "writing" for a in answers.values())
        if stop() or idle or now > written_by or not set(live_workers(asked.rings)) & set(asked.workers):
            return answers
        time.sleep(POLL_S)


def _answer(asked: Asked, worker: str) -> Answer | None:
    try:
        return msgspec.json.decode((asked.folder / f"{worker}.json").read_bytes(), type=Answer)
    except (OSError, msgspec.DecodeError):
        return None


def _alive(pid: int) -> bool:
    return Path(f"/proc/{int(pid)}").exists()
