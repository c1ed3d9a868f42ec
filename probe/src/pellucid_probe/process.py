"""This process as a source: its ring, its description file, its host samples.

    $PELLUCID_DIR/engine_core-4711.ring   records
    $PELLUCID_DIR/engine_core-4711.json   who writes them, what is visible, what is blind and why
    $PELLUCID_DIR/key                     secret of the site, for block hashes
    $PELLUCID_DIR/pause                   while this file is there no hook looks at anything
    $PELLUCID_DIR/capture.json            asks for a capture (capture.py)
    $PELLUCID_DIR/control/                asks for other settings, where that was allowed (control.py)

Everything here runs at start-up or on a thread of its own, never in the engine's step path.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import json
import multiprocessing.util
import os
import platform
import resource
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from pellucid_probe import __version__, records
from pellucid_probe.control import Control, read_key
from pellucid_probe.guard import COST, Governor, Hook
from pellucid_probe.outbox import Outbox, one
from pellucid_probe.ring import RingError, RingWriter

RING_BYTES = {"engine_core": 32 << 20, "frontend": 16 << 20, "worker": 8 << 20}
HOST_EVERY_NS = 1_000_000_000
_HOST = one(records.HOST, records.pack_host)
PAUSE = "pause"
KEY_FILE = "PELLUCID_CONTROL"
FLUSH_EVERY_S = 0.1    # long enough that packing a step finds our code warm from the step before
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def folder() -> Optional[str]:
    """Where to write, or None when the probe is to stay inert."""
    if os.environ.get("PELLUCID_OFF") == "1":
        return None
    return os.environ.get("PELLUCID_DIR") or None


class Fact:
    """Whether one fact is seen in this process, and if not, why and how to turn it on."""

    def __init__(self, state: str, reason: str = "", collect: str = "") -> None:
        self.state, self.reason, self.collect = state, reason, collect


class Process:
    """One per process, made when its role is known. Raises RingError when the ring cannot be allocated."""

    def __init__(self, where: str, role: str, engine: str, engine_version: str) -> None:
        self.where, self.roles = where, [role]
        self.name = f"{role}-{os.getpid()}"
        self.engine, self.engine_version = engine, engine_version
        self.facts: Dict[str, Fact] = {}
        self.hooks: Dict[str, List[Hook]] = {}      # fact → hooks that feed it
        self.config: Dict[str, Any] = {}
        self.dp_rank: Optional[int] = None
        self.start_ns = time.monotonic_ns()
        self._governors: List[Governor] = []
        self.optional_facts: List[str] = []         # what the governor sheds, in this order
        self.ring = RingWriter(os.path.join(where, self.name + ".ring"), _ring_bytes(role))
        self.outbox = Outbox(self.ring)
        self.key = site_key(where)
        self.paused = False
        self.on_resume: List[Callable[[], None]] = []      # who has to know that something was not seen
        self.on_poll: List[Callable[[], None]] = []        # who looks for something about ten times a second
        self._described = ""
        self.control: Optional[Control] = None
        self.control_fault = ""            # why there is none although it was asked for

    def see(self, fact: str, hooks: List[Hook]) -> bool:
        """Installs the hooks a fact needs; all or the fact is blind. Returns whether it is seen."""
        faults = [fault for fault in (hook.target.fault() for hook in hooks) if fault]
        if not faults:
            faults = [fault for fault in (hook.install() for hook in hooks) if fault]
        if faults:
            self.blind(fact, faults[0], "use an engine version of the tested table, or report this one")
            return False
        self.hooks[fact] = hooks
        self.facts[fact] = Fact("visible")
        return True

    def blind(self, fact: str, reason: str, collect: str) -> None:
        self.facts[fact] = Fact("blind", reason, collect)

    def listen(self) -> Optional[Control]:
        """The live control of this process, if the engine was started with one."""
        path = os.environ.get(KEY_FILE)
        if self.control is None and path and not self.control_fault:
            try:
                self.control = Control(self.where, self.name, self.start_ns, read_key(path))
                self.on_poll.append(self.control.look)
            except (OSError, ValueError) as error:
                self.control_fault = f"{KEY_FILE}: {error}"
        return self.control

    def pause(self, asked: bool) -> None:
        """Hooks stay where they are and look away, or look again: all but those that fell silent by themselves."""
        if asked == self.paused:
            return
        self.paused = asked
        for hook in {id(hook): hook for hooks in self.hooks.values() for hook in hooks}.values():
            hook.on = not asked and not hook.failed
        if not asked:
            for resume in self.on_resume:
                resume()

    @property
    def shed_level(self) -> int:
        return max((governor.level for governor in self._governors), default=0)

    def governed(self) -> Governor:
        """A governor of this process's cost, one for each kind of unit (steps, batches of outputs)."""
        self._governors.append(Governor(self.cost_ns))
        return self._governors[-1]

    def describe(self) -> None:
        """Writes the description if it changed. IO: at start-up and from the host thread only."""
        for fact, hooks in self.hooks.items():
            for hook in hooks:
                if hook.failed:
                    self.blind(fact, f"hook switched itself off after {hook.errors_count} errors: {hook.last_error}",
                               "report it; the engine is not affected")  # fmt: skip
        if self.shed_level:
            how = "sampled, one in 8" if self.shed_level == 1 else "shed"
            for fact in self.optional_facts:
                self.blind(fact, f"{how}: the probe's cost was above its budget", "give the engine's host a free core")
        text = json.dumps({
            "role": "+".join(self.roles), "pid": os.getpid(), "state": "on", "reason": "",
            "engine": self.engine, "engine_version": self.engine_version, "probe_version": __version__,
            "python_version": platform.python_version(), "dp_rank": self.dp_rank, "start_ns": self.start_ns,
            "deployment": os.environ.get("PELLUCID_DEPLOYMENT", "default"),
            "facts": {name: vars(self._now(name, fact)) for name, fact in sorted(self.facts.items())},
            "config": self.config,
        })  # fmt: skip
        if text != self._described:
            _replace(os.path.join(self.where, self.name + ".json"), text)
            self._described = text

    def _now(self, name: str, fact: Fact) -> Fact:
        if self.paused and fact.state == "visible" and name in self.hooks:
            return Fact("blind", "the probe is paused", f"remove {PAUSE} from the probe's folder")
        return fact

    def errors_count(self) -> int:
        return self.outbox.errors_count + sum(hook.errors_count for hooks in self.hooks.values() for hook in hooks)

    def cost_ns(self) -> int:
        """Time in our code since the start: hooks, and packing what they said."""
        return COST.ns + self.outbox.cost_ns

    def start_thread(self) -> None:
        """Our one thread: empties the outbox, and once a second looks at the process itself."""
        self.facts["host.samples"] = Fact("visible")
        atexit.register(self.outbox.last)
        multiprocessing.util.Finalize(None, self.outbox.last, exitpriority=0)   # its children skip atexit
        threading.Thread(target=_work_forever, args=(self,), name="pellucid", daemon=True).start()


def say_off(where: str, role: str, reason: str) -> None:
    """Leaves a note that the probe stays off in this process. Best effort: the engine goes on whatever happens."""
    with contextlib.suppress(OSError):
        _replace(os.path.join(where, f"{role}-{os.getpid()}.json"), json.dumps({
            "role": role, "pid": os.getpid(), "state": "off", "reason": reason, "engine": "", "engine_version": "",
            "probe_version": __version__, "python_version": platform.python_version(), "facts": {}, "config": {},
        }))  # fmt: skip


def site_key(where: str) -> bytes:
    """The site's secret, 32 bytes; made here, once, if nobody laid one down. Raises RingError if it cannot be kept."""
    path = os.path.join(where, "key")
    try:
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            for _ in range(50):   # another process may be between creating and filling it
                with open(path, "rb") as f:
                    key = f.read()
                if len(key) == 32:
                    return key
                time.sleep(0.01)
            raise RingError(f"{path} holds {len(key)} bytes, expected 32") from None
        with os.fdopen(fd, "wb") as f:
            key = os.urandom(32)
            f.write(key)
        return key
    except OSError as error:
        raise RingError(f"{path}: {error.strerror}") from error


def keyed_digest(key: bytes, data: "bytes | memoryview") -> bytes:
    """64-bit keyed hash: a bare hash of token ids could be guessed."""
    return hashlib.blake2b(data, digest_size=8, key=key).digest()


def keyed_hash(key: bytes, data: bytes) -> str:
    """The same in hex."""
    return keyed_digest(key, data).hex()


class _GcClock:
    """Garbage-collection pauses since the last `take`."""

    def __init__(self) -> None:
        self.count = self.pause_ns = self.pause_max_ns = self._start = 0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: Dict[str, int]) -> None:
        if phase == "start":
            self._start = time.monotonic_ns()
        elif self._start:
            pause = time.monotonic_ns() - self._start
            self.count += 1
            self.pause_ns += pause
            self.pause_max_ns = max(self.pause_max_ns, pause)

    def take(self) -> "tuple[int, int, int]":
        taken = (self.count, self.pause_ns, self.pause_max_ns)
        self.count = self.pause_ns = self.pause_max_ns = 0
        return taken


class _HostClock:
    """What this process used since the last look."""

    def __init__(self, process: Process) -> None:
        self.process, self.gc = process, _GcClock()
        self.last_ns, self.last = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)
        self.last_cost_ns = process.cost_ns()

    def look(self) -> None:
        now, usage, cost_ns = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF), self.process.cost_ns()
        last, process = self.last, self.process
        process.outbox.put(_HOST, (
            now, now - self.last_ns, int((usage.ru_utime - last.ru_utime) * 1e9),
            int((usage.ru_stime - last.ru_stime) * 1e9), _rss_bytes(), threading.active_count(),
            usage.ru_nvcsw - last.ru_nvcsw, usage.ru_nivcsw - last.ru_nivcsw, *self.gc.take(),
            cost_ns - self.last_cost_ns, process.errors_count(), process.ring.dropped_count, process.shed_level,
        ))  # fmt: skip
        self.last_ns, self.last, self.last_cost_ns = now, usage, cost_ns


def _work_forever(process: Process) -> None:
    clock, pause = _HostClock(process), os.path.join(process.where, PAUSE)
    woken = False
    while True:
        process.outbox.empty(woken)
        try:
            process.pause(os.path.exists(pause))
            for look in process.on_poll:
                look()
            if time.monotonic_ns() - clock.last_ns >= HOST_EVERY_NS:
                clock.look()
                process.describe()
        except Exception:   # the thread must outlive a full disk or a vanished folder
            process.outbox.errors_count += 1
            clock.last_ns = time.monotonic_ns()
        woken = process.outbox.wait(FLUSH_EVERY_S)


def _rss_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * _PAGE_BYTES


def _ring_bytes(role: str) -> int:
    asked = os.environ.get("PELLUCID_RING_BYTES", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else RING_BYTES[role]


def _replace(path: str, text: str) -> None:
    tmp = f"{path}.tmp"
    with open(tmp, "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(tmp, path)
