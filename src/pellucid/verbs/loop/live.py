"""Settings of a running engine, changed without a restart: asked of its probes, lent for a time, taken back.

    desk = open_desk(rings, by="pellucid try")
    lent = set_values(desk, {"sequence_cap": 4}, lease_s=60)
    lent.changes      (Change(knob="sequence_cap", process="engine_core-4711", old=16, new=4),)
    renew(desk, 60); revert(desk)     or keep(desk), which undo(desk) takes back later

Every process of the engine that has a setting must take it; where one does not, it is taken back in the others. When
whoever holds the desk dies, the probes put the values of before back by themselves when the lease is over. Requests are
signed with the engine's control key, and so are the answers (pellucid_probe/control.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pellucid_probe.control import ASK, FOLDER, MOST_LEASE_NS, read_key, signature, signed

from pellucid.catalog.knobs.resolve import resolve
from pellucid.catalog.load import knobs
from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed, PellucidError
from pellucid.core.units import S_NS
from pellucid.verbs.site import CONTROL_KEY

VARIABLE = "PELLUCID_CONTROL"
ANSWER_S = 5.0              # the probe looks ten times a second; a busy host is slower
POLL_S = 0.02
LEASE_S = MOST_LEASE_NS / S_NS      # the longest there is
FACT = "control."
TURN_ON = "Start the engine with it: pellucid run --control -- …, or with PELLUCID_CONTROL=<key file> set for it"

Value = int | float | str | bool | None | list[Any]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Desk:
    """Who asks what engine. Whoever knows `holder` may go on with what it holds, in another process too."""

    rings: Path
    key: bytes
    holder: str
    by: str                 # for the audit, and for others who find the engine held


@dataclass(frozen=True, slots=True)
class Part:
    """An engine process as it described itself."""

    name: str
    engine: str
    start_ns: int
    facts: Mapping[str, Mapping[str, str]]

    def has(self, knob: str) -> bool:
        return self.facts.get(FACT + knob, {}).get("state") == "visible"


@dataclass(frozen=True, slots=True)
class Change:
    knob: str
    process: str
    old: Value
    new: Value


@dataclass(frozen=True, slots=True)
class Lent:
    changes: tuple[Change, ...]
    until_ns: int | None            # CLOCK_MONOTONIC; None for what has no end


@dataclass(frozen=True, slots=True)
class Present:
    """A setting in one process. `value` is None with a reason in `blind` where it cannot be set."""

    knob: str
    process: str
    value: Value
    bound: str                      # what may be set, in words
    blind: str
    before: Value                   # what comes back when the lease ends
    held_by: str                    # "" where it is not lent now
    left_ns: int | None             # of the lease; None where it is not lent now

    def row(self) -> dict[str, Any]:
        return asdict(self)


def open_desk(
    rings: Path, by: str, holder: str | None = None, environ: Mapping[str, str] = os.environ
) -> Desk:
    """A desk of its own, or another one's with its `holder`. Raises CannotAnswer where live control is off or its key
    is not ours to read."""
    path = rings / CONTROL_KEY if (rings / CONTROL_KEY).exists() else Path(environ.get(VARIABLE) or rings / CONTROL_KEY)
    try:
        key = read_key(str(path))
    except FileNotFoundError as error:
        raise CannotAnswer(f"the engine of {rings} takes no live settings, or its key is elsewhere: no {path}. {TURN_ON}") from error  # noqa: E501
    except (OSError, ValueError) as error:
        raise CannotAnswer(f"the control key cannot be used: {error}") from error
    return Desk(rings, key, holder or f"h{secrets.token_hex(8)}", by)


def status(desk: Desk, clock: Clock = monotonic_ns) -> list[Present]:
    """Every live setting of every process, as it is now."""
    parts = _parts(desk.rings)
    asked = {part.name: part for part in parts if _offers(part)}
    if not asked:
        raise CannotAnswer(f"{_why_off(parts, desk.rings)}. {TURN_ON}")
    answers = _ask(desk, "status", {name: {} for name in asked}, asked, None, clock)
    found = []
    for name, answer in sorted(answers.items()):
        now = answer["now"]
        lease = now["lease"] or {"by": "", "until_ns": 0, "before": {}}
        for knob, seen in now["knobs"].items():
            held = knob in lease["before"]
            found.append(Present(
                knob, name, seen["value"], seen["bound"], "", lease["before"].get(knob), lease["by"] if held else "",
                lease["until_ns"] - clock() if held else None,
            ))  # fmt: skip
        found += [Present(knob, name, None, "", why, None, "", None) for knob, why in now["unavailable"].items()]
    return found


def set_values(desk: Desk, values: Mapping[str, Value], lease_s: float, clock: Clock = monotonic_ns) -> Lent:
    """All of it in every process that has it, or nothing. Raises AskedWrongly with the engine's own bound, Failed where
    a process does not answer."""
    parts = {part.name: part for part in _parts(desk.rings)}
    values = {_ours(name, list(parts.values())): value for name, value in values.items()}
    for knob in values:
        if not any(part.has(knob) for part in parts.values()):
            raise _no_knob(knob, list(parts.values()), desk.rings)
    own = {name: {knob: value for knob, value in values.items() if part.has(knob)} for name, part in parts.items()}
    bodies = {name: {"values": mine} for name, mine in own.items() if mine}
    until_ns = _until(lease_s, clock)
    try:
        answers = _ask(desk, "set", bodies, parts, until_ns, clock)
    except Unanimity as fault:
        _take_back(desk, fault.done, {name: list(own[name]) for name in fault.done}, parts, clock)
        raise fault.told() from None
    return Lent(_changes(answers), until_ns)


def renew(desk: Desk, lease_s: float, clock: Clock = monotonic_ns) -> Lent:
    """Raises AskedWrongly where the time was up: what was set is not in force any more."""
    until_ns = _until(lease_s, clock)
    return Lent(_changes(_held(desk, "renew", until_ns, clock)), until_ns)


def keep(desk: Desk, clock: Clock = monotonic_ns) -> Lent:
    """From a lease to a decision: the values stay until the engine ends, or `undo`."""
    parts = {part.name: part for part in _parts(desk.rings)}
    try:
        return Lent(_changes(_ask(desk, "keep", _holding(desk, clock), parts, None, clock)), None)
    except Unanimity as fault:
        with contextlib.suppress(PellucidError, Unanimity):
            _ask(desk, "undo", {name: {} for name in fault.done}, parts, None, clock)
        raise fault.told() from None


def revert(desk: Desk, clock: Clock = monotonic_ns) -> Lent:
    """The values of before the lease are back. Nothing to do is no error: the time may have been up."""
    return Lent(_changes(_held(desk, "revert", None, clock)), None)


def undo(desk: Desk, clock: Clock = monotonic_ns) -> Lent:
    """Takes back what was kept last. Raises AskedWrongly where nothing was."""
    parts = {part.name: part for part in _parts(desk.rings)}
    kept = _standing(desk, parts, lambda now: now["kept_count"] > 0, clock)
    if not kept:
        raise AskedWrongly("nothing was kept in this engine since it started: there is nothing to undo")
    return Lent(_changes(_told(lambda: _ask(desk, "undo", {name: {} for name in kept}, parts, None, clock))), None)


class Unanimity(Exception):
    """Not every process did what was asked."""

    def __init__(self, done: list[str], refused: dict[str, str], silent: list[str]) -> None:
        super().__init__()
        self.done, self.refused, self.silent = done, refused, silent

    def told(self) -> PellucidError:
        if self.refused:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(self.refused.items()))
            return AskedWrongly(f"the engine refused, and nothing of it is set. {reasons}")
        silent = ", ".join(sorted(self.silent))
        return Failed(f"no answer within {ANSWER_S:g} s from {silent}: what others had taken is back. Is the process alive and its probe on? Try: pellucid doctor")  # noqa: E501


def _held(desk: Desk, action: str, until_ns: int | None, clock: Clock) -> dict[str, Any]:
    parts = {part.name: part for part in _parts(desk.rings)}
    return _told(lambda: _ask(desk, action, _holding(desk, clock), parts, until_ns, clock))


def _told(ask: Callable[[], Kind]) -> Kind:
    try:
        return ask()
    except Unanimity as fault:
        raise fault.told() from None


def _holding(desk: Desk, clock: Clock) -> dict[str, dict[str, Any]]:
    """Every process in which something is held; all where nothing is, so that they say so."""
    parts = {part.name: part for part in _parts(desk.rings)}
    held = _standing(desk, parts, lambda now: now["lease"] is not None, clock)
    return {name: {} for name in held or [name for name, part in parts.items() if _offers(part)]}


def _standing(desk: Desk, parts: Mapping[str, Part], is_so: Callable[[Any], bool], clock: Clock) -> list[str]:
    asked: dict[str, dict[str, Any]] = {name: {} for name, part in parts.items() if _offers(part)}
    if not asked:
        raise CannotAnswer(f"{_why_off(list(parts.values()), desk.rings)}. {TURN_ON}")
    answers = _told(lambda: _ask(desk, "status", asked, parts, None, clock))
    return [name for name, answer in answers.items() if is_so(answer["now"])]


def _take_back(
    desk: Desk, done: list[str], knobs: Mapping[str, list[str]], parts: Mapping[str, Part], clock: Clock
) -> None:
    """What cannot be reached for it any more comes back by itself, when the lease is over."""
    if done:
        with contextlib.suppress(PellucidError, Unanimity):
            _ask(desk, "revert", {name: {"only": knobs[name]} for name in done}, parts, None, clock)


def _ask(
    desk: Desk, action: str, bodies: Mapping[str, dict[str, Any]], parts: Mapping[str, Part], until_ns: int | None,
    clock: Clock,
) -> dict[str, Any]:  # fmt: skip
    """Process → its answer. Raises Unanimity, CannotAnswer where the key is not the engine's."""
    asked_id = f"a{secrets.token_hex(6)}"
    to = {name: {"start_ns": parts[name].start_ns, **body} for name, body in bodies.items()}
    folder = desk.rings / FOLDER
    with _alone(folder, clock):
        text = signed(desk.key, "ask", {
            "id": asked_id, "action": action, "holder": desk.holder, "by": desk.by, "sequence": clock(), "to": to,
            "until_ns": until_ns,
        })  # fmt: skip
        path, new = folder / ASK, folder / f"{ASK}.new"
        new.write_text(text)
        new.replace(path)
        try:
            answers = _wait(desk, asked_id, list(to), clock)
        finally:
            path.unlink(missing_ok=True)
    refused = {name: a["reason"] for name, a in answers.items() if a["state"] != "done"}
    silent = [name for name in to if name not in answers]
    if refused or silent:
        raise Unanimity([name for name in answers if name not in refused], refused, silent)
    return answers


def _wait(desk: Desk, asked_id: str, processes: list[str], clock: Clock) -> dict[str, Any]:
    give_up_ns = clock() + int(ANSWER_S * S_NS)
    answers: dict[str, Any] = {}
    foreign: set[str] = set()
    while len(answers) < len(processes) and clock() < give_up_ns:
        for name in processes:
            path = desk.rings / FOLDER / f"{name}.json"
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                outer = json.loads(path.read_text())
                mac = signature(desk.key, "answer", outer["body"].encode())
                if hmac.compare_digest(mac, outer["mac"]):
                    body = json.loads(outer["body"])
                    if body["id"] == asked_id:
                        answers[name] = body
                else:
                    foreign.add(name)
        time.sleep(POLL_S)
    if foreign - answers.keys():
        raise CannotAnswer(f"the engine has another control key than this one: it was started with another {VARIABLE}")
    return answers


@contextlib.contextmanager
def _alone(folder: Path, clock: Clock) -> Iterator[None]:
    """One request at a time; each is a fraction of a second."""
    try:
        fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise CannotAnswer(f"no live control in {folder.parent}: {error.strerror}. {TURN_ON}") from error
    give_up_ns = clock() + int(2 * ANSWER_S * S_NS)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if clock() >= give_up_ns:
                    raise Failed("another program is asking this engine, and does not end. Wait for it") from error
                time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


def _parts(rings: Path) -> list[Part]:
    """Processes that are alive, with their probe on."""
    found = []
    for path in sorted(rings.glob("*-*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            described = json.loads(path.read_text())
            if described["state"] == "on" and Path(f"/proc/{int(described['pid'])}").exists():
                found.append(Part(path.stem, described["engine"], int(described["start_ns"]), described["facts"]))
    return found


def _offers(part: Part) -> bool:
    return any(name.startswith(FACT) and fact.get("state") == "visible" for name, fact in part.facts.items())


def _why_off(parts: list[Part], rings: Path) -> str:
    if not parts:
        return f"no running engine has a probe in {rings}"
    reasons = [f["reason"] for part in parts for name, f in part.facts.items() if name.startswith(FACT)]
    return reasons[0] if reasons else "this engine was started without live control"


def _ours(name: str, parts: list[Part]) -> str:
    """Our name for what may be the engine's."""
    if not parts or any(FACT + name in part.facts for part in parts):
        return name
    return resolve(name, parts[0].engine)


def _no_knob(knob: str, parts: list[Part], rings: Path) -> PellucidError:
    there = sorted({name.removeprefix(FACT) for part in parts for name, f in part.facts.items()
                    if name.startswith(FACT) and f.get("state") == "visible"})  # fmt: skip
    if not there:
        return CannotAnswer(f"{_why_off(parts, rings)}. {TURN_ON}")
    reason = next((part.facts[FACT + knob]["reason"] for part in parts if FACT + knob in part.facts), "")
    why = f"cannot be changed in this engine: {reason}" if reason else "is no live setting of this engine"
    instead = knobs()[knob].live_as if knob in knobs() else ""
    hint = f"Downwards, {instead} does the same" if instead in there else f"It has: {', '.join(there)}"
    return AskedWrongly(f"{knob} {why}. {hint}")


def _until(lease_s: float, clock: Clock) -> int:
    if not 0 < lease_s <= LEASE_S:
        raise AskedWrongly(f"a lease of {lease_s:g} s: at most {LEASE_S:g} s, and renewed for longer")
    return clock() + int(lease_s * S_NS)


def _changes(answers: Mapping[str, Any]) -> tuple[Change, ...]:
    return tuple(
        Change(knob, name, answer["old"].get(knob), new)
        for name, answer in sorted(answers.items()) for knob, new in answer["new"].items()
    )  # fmt: skip
