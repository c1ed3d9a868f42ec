"""A capture: every operator and kernel of some steps, by the profiler that the engine's framework has.

    $PELLUCID_DIR/capture.json                      asks: {"id": "c1", "steps": 10, "first_step": 4711, …}
    $PELLUCID_DIR/captures/c1/worker-4711.json      answers: state, reason, steps, what it cost
    $PELLUCID_DIR/captures/c1/worker-4711.trace.json    the trace

Who may write into the probe's folder may ask; PELLUCID_CAPTURE=0 in the engine's environment refuses all. Starting and
stopping happen between two steps on the thread that runs them: the profiler belongs to a thread. Writing the trace
happens on another one.

    asked ──(step first_step begins)──▶ running ──(its last step ends, or the time is up)──▶ writing ──▶ done
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from pellucid_probe.guard import COST

ASK = "capture.json"
FOLDER = "captures"
MOST_STEPS = 200
ROOM_BYTES = 64 << 20          # free space to begin with …
STEP_BYTES = 8 << 20           # … and for each step: 1.5 MB a step were seen with an 18-layer model
LABEL = "pellucid step="       # the range around a step's part: "pellucid step=4711 execute"
EXPIRE_NS = 2_000_000_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

Profiler = Any                 # has start(), stop() and export_chrome_trace(path)


class Ask:
    """What was asked for. Raises ValueError in words for whoever asked."""

    def __init__(self, text: str) -> None:
        try:
            given = json.loads(text)
        except ValueError:
            raise ValueError(f"{ASK} is not JSON") from None
        if not isinstance(given, dict):
            raise ValueError(f"{ASK} holds no object")
        self.id = given.get("id")
        self.steps = _whole(given, "steps", 1, MOST_STEPS)
        self.first_step = _whole(given, "first_step", 0, 2**62, 0)
        self.until_ns = _whole(given, "until_ns", 1, 2**62)     # CLOCK_MONOTONIC: past it, what is there is taken
        self.shapes = given.get("shapes", False) is True
        if not isinstance(self.id, str) or not _ID.match(self.id):
            raise ValueError("id must be 1 to 64 letters, digits, - or _")


class Capture:
    """The captures of one worker, one after another. `asked` is looked at in the step path and nothing else is."""

    def __init__(self, where: str, name: str, profiler: Callable[[Ask], Profiler], label: Callable[[str], Any]) -> None:
        self.asked: Optional[Ask] = None
        self._where, self._name = where, name
        self._make, self._label = profiler, label
        self._profiler: Optional[Profiler] = None
        self._open: List[Any] = []                     # ranges that were entered and not left
        self._steps: List[int] = []
        self._seen = ""                                # the text that was looked at last
        self._said: Dict[str, Any] = {}
        self._writing = False

    # On the probe's thread

    def look(self) -> None:
        """Whether something new is asked for. Called about ten times a second."""
        try:
            with open(os.path.join(self._where, ASK), encoding="utf-8") as f:
                text = f.read(4096)
        except OSError:
            return
        self._expire()
        if self._writing or self.asked is not None or text == self._seen:
            return
        self._seen = text
        try:
            ask = Ask(text)
        except ValueError:
            return                       # without an id there is nowhere to answer; whoever asked checks before
        self._said = {}
        refused = self._refusal(ask)
        self._say(ask, "refused" if refused else "waiting", refused)
        if not refused:
            self.asked = ask

    def _expire(self) -> None:
        """Nothing is begun after `until_ns`, so a little later nobody can be about to."""
        ask = self.asked
        if ask is not None and self._profiler is None and time.monotonic_ns() >= ask.until_ns + EXPIRE_NS:
            self.asked = None
            self._say(ask, "refused", f"no step from {ask.first_step} on began in its time: the engine is idle")

    def _refusal(self, ask: Ask) -> str:
        if os.environ.get("PELLUCID_CAPTURE") == "0":
            return "PELLUCID_CAPTURE=0 is set for the engine"
        if time.monotonic_ns() >= ask.until_ns:
            return "its time was up before anybody looked"
        for variable in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
            if os.environ.get(variable):
                return f"another profiler holds the device: {variable} is set"
        free, wanted = shutil.disk_usage(self._where).free, ROOM_BYTES + STEP_BYTES * ask.steps
        if free < wanted:
            return f"{free >> 20} MiB are free in the probe's folder, {ask.steps} steps want {wanted >> 20} MiB"
        return ""

    # On the thread that runs the steps, between two of them

    def begin(self, step: int, part: str) -> None:
        """A part of a step begins. Steps without a number are not captured. Never raises."""
        try:
            self._begin(step, part)
        except Exception as error:
            self._give_up(error)

    def end(self, step: int, last: bool) -> None:
        """A part of a step ended, and with the last part the step. Never raises."""
        try:
            self._end(step, last)
        except Exception as error:
            self._give_up(error)

    def _begin(self, step: int, part: str) -> None:
        ask = self.asked
        if ask is None or not step:
            return
        if part == "execute" and time.monotonic_ns() >= ask.until_ns:
            if self._profiler is not None:
                self._stop(ask)
        elif part == "execute" and self._profiler is None and step >= ask.first_step:
            self._start(ask)
        if self._profiler is not None:
            entered = self._label(f"{LABEL}{step} {part}")
            entered.__enter__()
            self._open.append(entered)

    def _end(self, step: int, last: bool) -> None:
        self._close()
        ask = self.asked
        if ask is None or self._profiler is None or not step or not last:
            return
        self._steps.append(step)
        if len(self._steps) >= ask.steps:
            start = time.monotonic_ns()
            self._stop(ask)
            # What a capture costs is told with it, and is no reason to look less. Hooks clock this end, not the begin.
            COST.ns -= time.monotonic_ns() - start

    def _close(self) -> None:
        while self._open:
            self._open.pop().__exit__(None, None, None)

    def _start(self, ask: Ask) -> None:
        start = time.monotonic_ns()
        profiler = self._make(ask)
        profiler.start()
        self._profiler, self._steps = profiler, []
        took_ns = time.monotonic_ns() - start
        self._said.update(start_ns=start, start_cost_ns=took_ns, start_wall_ns=time.time_ns() - took_ns)

    def _stop(self, ask: Ask) -> None:
        start = time.monotonic_ns()
        self._close()
        profiler: Profiler = self._profiler
        self._profiler = None
        profiler.stop()
        took_ns = time.monotonic_ns() - start
        self._said.update(stop_ns=start, stop_cost_ns=took_ns, steps=self._steps)
        self._writing, self.asked = True, None
        threading.Thread(target=self._write, args=(ask, profiler), name="pellucid-capture", daemon=True).start()

    def _give_up(self, error: Exception) -> None:
        """The engine goes on; a profiler that runs is stopped as far as it lets itself be."""
        ask, self.asked, self._open = self.asked, None, []
        profiler, self._profiler = self._profiler, None
        with contextlib.suppress(Exception):
            if profiler is not None:
                profiler.stop()
        if ask is not None:
            state = "failed" if "start_ns" in self._said else "refused"
            self._say(ask, state, f"{type(error).__name__}: {error}"[:300])

    # On a thread of its own

    def _write(self, ask: Ask, profiler: Profiler) -> None:
        start, path = time.monotonic_ns(), self._path(ask, ".trace.json")
        if not os.path.isdir(os.path.dirname(path)):     # whoever asked has gone: an idle engine ended it much later
            self._writing = False
            return
        self._say(ask, "writing", "")
        try:
            with contextlib.suppress(AttributeError, OSError):     # of this thread alone; not every system can
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
            profiler.export_chrome_trace(path + ".part")
            os.replace(path + ".part", path)
            self._said["export_ns"] = time.monotonic_ns() - start
            self._said["trace_bytes"] = os.path.getsize(path)
            self._say(ask, "done", "" if len(self._steps) == ask.steps else "its time was up")
        except Exception as error:
            with contextlib.suppress(OSError):
                os.unlink(path + ".part")
            self._say(ask, "failed", f"the trace could not be written: {type(error).__name__}: {error}")
        self._writing = False

    def _path(self, ask: Ask, suffix: str) -> str:
        return os.path.join(self._where, FOLDER, str(ask.id), self._name + suffix)

    def _say(self, ask: Ask, state: str, reason: str) -> None:
        """Best effort: whoever asked gives up when nothing comes."""
        path = self._path(ask, ".json")
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path + ".tmp", "w", encoding="utf-8") as f:
                json.dump({"id": ask.id, "state": state, "reason": reason, "pid": os.getpid(), **self._said}, f)
            os.replace(path + ".tmp", path)


def _whole(given: Dict[str, Any], name: str, least: int, most: int, default: Optional[int] = None) -> int:
    value = given.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value
