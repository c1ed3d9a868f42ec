"""Live control: settings of a running engine, changed on request. Off unless PELLUCID_CONTROL names a key file.

    $PELLUCID_DIR/control/ask.json                        {"body": "…JSON…", "mac": "HMAC-SHA256 of it"}
    $PELLUCID_DIR/control/engine_core-4711.json           the answer, signed with the same key
    $PELLUCID_DIR/control/engine_core-4711.audit.jsonl    what was asked, by whom, and what came of it

    body: {"id": "a1", "action": "set", "holder": "h1", "by": "pellucid try", "sequence": 81234567890,
           "until_ns": 81834567890, "to": {"engine_core-4711": {"start_ns": 4711, "values": {"sequence_cap": 4}}}}

A setting is a lease: past `until_ns` (CLOCK_MONOTONIC) the values of before come back, whoever died. Its holder may
renew it, keep it, or revert it; one holder at a time. `undo` takes back what was kept last, `status` changes nothing.

What is asked is checked before anything is written, since engines do not: all of it is done, or nothing. A request
holds for the processes it names, by name and start, and each takes a sequence number once: an old file does nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import stat
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

FOLDER, ASK = "control", "ask.json"
MOST_BYTES = 64 << 10
MOST_LEASE_NS = 600_000_000_000         # how long a dead controller's values can stay
MOST_AGE_NS = 30_000_000_000            # of a request when it is read
KEY_BYTES = (32, 4096)
ACTIONS = ("status", "set", "renew", "keep", "revert", "undo")
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

Values = Dict[str, Any]
Clock = Callable[[], int]


class Refused(Exception):
    """What was asked is not done; the text goes into the answer."""


class Knob:
    """One live setting."""

    def take(self, asked: Any) -> Any:
        """The engine's value for an asked one. Raises Refused with the bound."""
        raise NotImplementedError

    def read(self) -> Any:
        """The engine's value, or the one that its next step begins with."""
        raise NotImplementedError

    def write(self, value: Any) -> None:
        raise NotImplementedError

    def shown(self, value: Any) -> Any:
        return value

    def bound(self) -> str:
        raise NotImplementedError


class Lease:
    def __init__(self, holder: str, by: str, until_ns: int) -> None:
        self.holder, self.by, self.until_ns = holder, by, until_ns
        self.before: Values = {}        # the engine's values


class Control:
    """The live settings of one process. Everything here runs on the probe's thread."""

    def __init__(self, where: str, name: str, start_ns: int, key: bytes, clock: Clock = time.monotonic_ns) -> None:
        self.knobs: Dict[str, Knob] = {}
        self.unavailable: Dict[str, str] = {}                   # knob → why it cannot be set here
        self.in_force: Callable[[], Values] = dict              # whether, and since which step, the values hold
        self._folder, self._name, self._start_ns = os.path.join(where, FOLDER), name, start_ns
        self._key, self._clock = key, clock
        self._seen: Tuple[int, ...] = ()
        self._sequence = 0
        self._lease: Optional[Lease] = None
        self._kept: List[Values] = []                           # for each decision to keep, the values of before
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def look(self) -> None:
        """Ends a lease whose time is up, and does what is newly asked. About ten times a second."""
        self._expire()
        data = self._new_request()
        if data is None:
            return
        asked: Values = {}
        try:
            asked = self._opened(data)
            if self._name not in asked["to"]:
                return
            self._fresh(asked)
            said = self._do(asked)
            self._answer(asked["id"], "done", "", said)
        except Refused as refusal:
            self._turn_down(asked, "refused", str(refusal))
        except Exception as error:
            self._turn_down(asked, "failed", f"{type(error).__name__}: {error}"[:300])

    # What was asked

    def _new_request(self) -> Optional[bytes]:
        """None where nothing changed since the last look. Neither a link nor a pipe is a request."""
        path = os.path.join(self._folder, ASK)
        try:
            about = os.stat(path, follow_symlinks=False)
            mark = (about.st_ino, about.st_mtime_ns, about.st_size)
            if mark == self._seen or not stat.S_ISREG(about.st_mode):
                return None
            self._seen = mark
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:
                return f.read(MOST_BYTES + 1)
        except OSError:
            return None

    def _opened(self, data: bytes) -> Values:
        """The body, if whoever wrote it has the key. Nothing of it is looked at before that."""
        if len(data) > MOST_BYTES:
            raise Refused(f"the request has more than {MOST_BYTES} bytes")
        try:
            outer = json.loads(data.decode())
            body, mac = outer["body"].encode(), str(outer["mac"]).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Refused("the request is not JSON with a body and its mac") from None
        if not hmac.compare_digest(signature(self._key, "ask", body).encode(), mac):
            raise Refused("the request is not signed with this engine's key")
        asked = json.loads(body)
        if not isinstance(asked, dict) or not isinstance(asked.get("to"), dict):
            raise Refused("the request does not say to whom it goes")
        for name in ("id", "holder"):
            if not isinstance(asked.get(name), str) or not _WORD.match(asked[name]):
                raise Refused(f"{name} must be 1 to 64 letters, digits, - or _")
        if asked.get("action") not in ACTIONS:
            raise Refused(f"action must be one of {', '.join(ACTIONS)}")
        asked["by"] = str(asked.get("by", ""))[:200]
        return asked

    def _fresh(self, asked: Values) -> None:
        mine, sequence, now = asked["to"][self._name], asked.get("sequence"), self._clock()
        if not isinstance(mine, dict) or mine.get("start_ns") != self._start_ns:
            raise Refused("the request is for another process of this name")
        if type(sequence) is not int or sequence <= self._sequence:
            raise Refused("the request was taken already, or a later one was")
        if not now - MOST_AGE_NS <= sequence <= now + 1_000_000_000:
            raise Refused(f"the request is older than {MOST_AGE_NS // 10**9} s, or its clock is another one")
        self._sequence = sequence

    # What is done

    def _do(self, asked: Values) -> Values:
        action, held = asked["action"], self._lease
        if action == "status":
            return self._record(asked, {}, {})
        if held is not None and held.holder != asked["holder"]:
            left_s = (held.until_ns - self._clock()) / 1e9
            raise Refused(f"held by {held.by or held.holder} for {left_s:.0f} s more, unless it renews")
        if action == "set":
            return self._set(asked)
        if action == "undo":
            return self._undo(asked)
        if held is not None:
            return {"renew": self._renew, "keep": self._keep, "revert": self._revert}[action](asked, held)
        if action == "revert":      # its time was up, and that was done
            return self._record(asked, {}, {})
        raise Refused("nothing is held: the time was up, and the values of before are back")

    def _set(self, asked: Values) -> Values:
        wanted = asked["to"][self._name].get("values")
        if not isinstance(wanted, dict) or not wanted:
            raise Refused("values must name at least one knob")
        until_ns = self._until(asked)
        taken = {name: self._knob(name).take(value) for name, value in wanted.items()}
        old = {name: self.knobs[name].read() for name in taken}
        said = self._record(asked, old, taken, until_ns)
        try:
            for name, value in taken.items():
                self.knobs[name].write(value)
        except Exception:
            for name, value in old.items():
                with contextlib.suppress(Exception):
                    self.knobs[name].write(value)
            raise
        lease = self._lease = self._lease or Lease(asked["holder"], asked["by"], until_ns)
        lease.until_ns = until_ns
        lease.before = {**old, **lease.before}      # of a knob that is set again, the first one's
        return said

    def _renew(self, asked: Values, held: Lease) -> Values:
        until_ns = self._until(asked)
        said = self._record(asked, {}, {}, until_ns)
        held.until_ns = until_ns
        return said

    def _keep(self, asked: Values, held: Lease) -> Values:
        said = self._record(asked, held.before, {name: self.knobs[name].read() for name in held.before})
        self._kept.append(held.before)
        self._lease = None
        return said

    def _revert(self, asked: Values, held: Lease) -> Values:
        """All that is held, or the knobs that `only` names."""
        only = asked["to"][self._name].get("only")
        before = {name: value for name, value in held.before.items() if only is None or name in only}
        said = self._put_back(asked, before)
        for name in before:
            del held.before[name]
        if not held.before:
            self._lease = None
        return said

    def _undo(self, asked: Values) -> Values:
        """Takes back what was kept last."""
        if self._lease is not None:
            raise Refused("something is held: revert it or keep it first")
        if not self._kept:
            raise Refused("nothing was kept since this process started")
        return self._put_back(asked, self._kept.pop())

    def _expire(self) -> None:
        held = self._lease
        if held is not None and self._clock() >= held.until_ns:
            self._lease = None
            self._put_back({"action": "expired", "holder": held.holder, "by": held.by}, held.before)

    def _put_back(self, asked: Values, before: Values) -> Values:
        """Happens whether or not it can be noted."""
        old = {name: self.knobs[name].read() for name in before}
        for name, value in before.items():
            self.knobs[name].write(value)
        with contextlib.suppress(Refused):
            self._record(asked, old, before)
        return {"old": self._shown(old), "new": self._shown(before)}

    def _knob(self, name: str) -> Knob:
        if name in self.knobs:
            return self.knobs[name]
        if name in self.unavailable:
            raise Refused(f"{name} cannot be set here: {self.unavailable[name]}")
        raise Refused(f"{name[:64]!r} is no live knob of this process, which has {', '.join(self.knobs) or 'none'}")

    def _until(self, asked: Values) -> int:
        until_ns, now = asked.get("until_ns"), self._clock()
        if type(until_ns) is not int or not now < until_ns <= now + MOST_LEASE_NS:
            raise Refused(f"until_ns must be a whole number, at most {MOST_LEASE_NS // 10**9} s ahead")
        return until_ns

    # What is said

    def status(self) -> Values:
        lease = self._lease
        return {
            "knobs": {name: {"value": knob.shown(knob.read()), "bound": knob.bound()}
                      for name, knob in self.knobs.items()},
            "unavailable": self.unavailable, "kept_count": len(self._kept), **self.in_force(),
            "lease": lease and {"by": lease.by, "until_ns": lease.until_ns, "before": self._shown(lease.before)},
        }  # fmt: skip

    def _shown(self, values: Values) -> Values:
        return {name: self.knobs[name].shown(value) for name, value in values.items()}

    def _record(self, asked: Values, old: Values, new: Values, until_ns: Optional[int] = None) -> Values:
        """Raises Refused where nothing can be noted: what nobody can read later is not done."""
        said = {"old": self._shown(old), "new": self._shown(new)}
        if not self._note({**_who(asked), **said, "until_ns": until_ns, "result": "done", "reason": ""}):
            raise Refused("the audit file cannot be written")
        return said

    def _turn_down(self, asked: Values, result: str, reason: str) -> None:
        self._note({**_who(asked), "old": {}, "new": {}, "until_ns": None, "result": result, "reason": reason})
        self._answer(str(asked.get("id", "")), result, reason, {"old": {}, "new": {}})

    def _note(self, line: Values) -> bool:
        stamp = {"time_ns": self._clock(), "wall_ns": time.time_ns(), "process": self._name}
        data = json.dumps({**stamp, **line}).encode() + b"\n"
        path = os.path.join(self._folder, f"{self._name}.audit.jsonl")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            try:
                return os.write(fd, data) == len(data)
            finally:
                os.close(fd)
        except OSError:
            return False

    def _answer(self, asked_id: str, state: str, reason: str, said: Values) -> None:
        """Best effort: whoever asked gives up when nothing comes."""
        text = {"id": asked_id, "state": state, "reason": reason, "process": self._name, **said, "now": self.status()}
        path = os.path.join(self._folder, f"{self._name}.json")
        with contextlib.suppress(OSError):
            fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            with os.fdopen(fd, "w") as f:
                f.write(signed(self._key, "answer", text))
            os.replace(path + ".tmp", path)


def signature(key: bytes, kind: str, body: bytes) -> str:
    """`kind` is ask or answer: neither can be taken for the other."""
    return hmac.new(key, kind.encode() + b"\n" + body, hashlib.sha256).hexdigest()


def signed(key: bytes, kind: str, values: Values) -> str:
    body = json.dumps(values)
    return json.dumps({"body": body, "mac": signature(key, kind, body.encode())})


def read_key(path: str) -> bytes:
    """Raises OSError, or ValueError in words: a key that others can read opens nothing."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as f:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if about.st_uid != os.geteuid():
            raise ValueError(f"{path} belongs to user {about.st_uid}, not to {os.geteuid()}")
        if about.st_mode & 0o077:
            raise ValueError(f"{path} can be used by others (mode {about.st_mode & 0o777:o}). Try: chmod 600")
        key = f.read(KEY_BYTES[1] + 1)
    if not KEY_BYTES[0] <= len(key) <= KEY_BYTES[1]:
        raise ValueError(f"{path} holds {len(key)} bytes; a key has {KEY_BYTES[0]} to {KEY_BYTES[1]}")
    return key


def _who(asked: Values) -> Values:
    return {name: asked.get(name, "") for name in ("action", "id", "holder", "by")}
