"""What may be tried: a candidate and the situation → allowed, in which way, or refused with the reason in words.

    guard((Setting("max_running_requests", 9000),), situation)
        Ruling(allowed=False, check="legality", reason="max_running_requests=9000: … from 1 to 4096 requests", …)
    guard((Setting("max_running_requests", 64),), situation).way      "beside"

Every proposal passes here, whoever made it, before anything boots and before any knob is set.

check   legality (known to this engine and version, in range, couplings) · same (in effect already) · tried ·
        blast radius · memory · budget
way     live (knobs of an engine that runs: one of ours, or the serving one with control) · beside (a second engine, the
        serving one untouched) · restart (only where that is allowed)
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import PellucidError
from pellucid.core.units import duration
from pellucid.physics.geometry import Geometry
from pellucid.tune.command import Command, changed
from pellucid.tune.memory import Room, Way, needs, not_known, shortage
from pellucid.tune.space import Candidate, in_effect, merged, problems, words


@dataclass(frozen=True, slots=True)
class Situation:
    engine: Engine                     # as recorded, in the user's own configuration
    geometry: Geometry | None          # of its model; None where no config.json was read
    command: Command                   # the user's
    present: Candidate                 # kept so far, over it
    tried: tuple[Candidate, ...]       # `State.tried`
    room: Room
    live: frozenset[str]               # knobs that the engine takes while it runs
    control: bool                      # … and that may be set: in an engine of ours, or as the user has allowed
    beside: bool                       # a second engine may be started
    may_restart: bool
    left_ns: int                       # of the budget
    trial_ns: int                      # what a trial takes at least


@dataclass(frozen=True, slots=True)
class Ruling:
    allowed: bool
    check: str                         # which one decided; "" where all passed
    reason: str
    notes: tuple[str, ...] = ()        # what is not known, and so not checked
    way: Way | None = None


def guard(candidate: Candidate, situation: Situation) -> Ruling:
    """A candidate without settings is the present configuration against itself: nothing to refuse but room and time."""
    for check, against in (("legality", _illegal), ("same", _same), ("tried", _tried), ("budget", _too_late)):
        if reason := against(candidate, situation):
            return Ruling(False, check, reason)
    return _by_way(candidate, situation)


def _illegal(candidate: Candidate, situation: Situation) -> str:
    """Couplings are those of everything in effect; a fault of what was kept before is not the candidate's."""
    whole = merged(situation.present, candidate)
    found = problems(candidate, situation.engine) or problems(whole, situation.engine)
    if found:
        return "; ".join(found)
    try:
        changed(situation.command, whole, situation.engine)
    except PellucidError as error:
        return str(error)
    return ""


def _same(candidate: Candidate, situation: Situation) -> str:
    if not candidate:
        return ""
    kept = {s.knob: s for s in situation.present}
    same = [kept[s.knob] == s if s.knob in kept else in_effect(s, situation.engine) is True for s in candidate]
    if all(same):
        return f"{words(candidate)} is in effect already"
    before = changed(situation.command, situation.present, situation.engine)
    after = changed(situation.command, merged(situation.present, candidate), situation.engine)
    return f"{words(candidate)} changes nothing in the engine's command" if after == before else ""


def _tried(candidate: Candidate, situation: Situation) -> str:
    whole = merged(situation.present, candidate)
    again = candidate and any(merged(situation.present, t) == whole for t in situation.tried)
    return f"{words(candidate)} was tried already in this session" if again else ""


def _too_late(candidate: Candidate, situation: Situation) -> str:
    if situation.left_ns >= situation.trial_ns:
        return ""
    left, needed = duration(max(0, situation.left_ns)), duration(situation.trial_ns)
    return f"{left} of the budget are left, and {words(candidate)} takes {needed} at least. Try: a larger --budget"


def _by_way(candidate: Candidate, situation: Situation) -> Ruling:
    """The first way that is open and has room, the one that touches least first."""
    wanted = needs(merged(situation.present, candidate), situation.engine, situation.geometry)
    short: list[str] = []
    for way in _open(candidate, situation):
        if reason := shortage(wanted, situation.room, way):
            short.append(f"{way}: {reason}")
        else:
            return Ruling(True, "", "", not_known(wanted, situation.room, way), way)
    if short:
        return Ruling(False, "memory", "; ".join(short), wanted.unknown)
    return Ruling(False, "blast radius", _closed(candidate, situation))


def _open(candidate: Candidate, situation: Situation) -> tuple[Way, ...]:
    live = bool(candidate) and situation.control and all(s.knob in situation.live for s in candidate)
    ways: tuple[tuple[Way, bool], ...] = (
        ("live", live), ("beside", situation.beside), ("restart", situation.may_restart))  # fmt: skip
    return tuple(way for way, is_open in ways if is_open)


def _closed(candidate: Candidate, situation: Situation) -> str:
    needs_restart = [s.knob for s in candidate if s.knob not in situation.live]
    if candidate and not needs_restart:
        return f"{words(candidate)} could be set in the serving engine, and control is off. Try: --control"
    knobs = ", ".join(needs_restart)
    what = f"{knobs} takes effect when the engine starts" if knobs else "a trial needs an engine of its own"
    return f"{what}, and the serving one is not restarted unasked. Try: room for a second engine"

