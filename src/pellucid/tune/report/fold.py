"""A session's journal, and what its trials left behind → its report. A trial alone → its report.

    of_session("20261130-091500-a1b2", entries, {1: Measured(…), 2: "outcome.json is not there"}, chain)
    of_trial(Measured(…))

A journal tells what was tried and why; an outcome adds the blocks of both arms, the verdict after each pair and what an
engine said at its end. Where there is none, its place says why. A journal that cannot follow is told up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from pellucid.core.errors import Failed
from pellucid.tune import events as e
from pellucid.tune.claims import compared, scores
from pellucid.tune.journal import Entry
from pellucid.tune.report.conditions import conditions, conditions_of
from pellucid.tune.report.ending import ending, ending_of
from pellucid.tune.report.measured import Measured
from pellucid.tune.report.shape import Chain, Claimed, Observation, Proposed, Refusal, Report, Ruling
from pellucid.tune.report.trial import Seen, trial, trial_of
from pellucid.tune.space import words
from pellucid.tune.state import State, fold

Outcomes = Mapping[int, Measured | str]      # by trial; why there is none, in words
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
UNNAMED = "the journal names no outcome"


@dataclass(slots=True)
class _Told:
    """What the state forgets."""

    state: State = field(default_factory=State)
    ruling: Ruling | None = None
    seen: dict[int, Seen] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def of_session(
    session: str, entries: Sequence[Entry], outcomes: Outcomes, chain: Chain, asked: Mapping[str, Any] = NOTHING,
) -> Report:
    """Never raises for what is in the entries. `asked` is the traffic that was asked for, and the seed."""
    told = _told(entries)
    state = told.state
    trials = tuple(
        trial(t, proposed(t.proposal), told.seen[t.number], outcomes.get(t.number, UNNAMED), chain.running)
        for t in state.trials
    )
    claims = tuple(Claimed(t.number, words(t.proposal.candidate), row)
                   for t in state.trials if (row := compared(t)) is not None)  # fmt: skip
    return Report(
        id=session, kind="session", ending=ending(state, chain.running), trials=trials, claims=claims, chain=chain,
        conditions=conditions(state, [m for m in outcomes.values() if isinstance(m, Measured)], asked),
        observations=tuple(told.observations),
        refused=tuple(Refusal(proposed(r.proposal), r.check, r.reason) for r in state.refused),
        waiting=tuple(map(proposed, state.queue)) if state.finished is None else (),
        scores=tuple(scores(state.trials)), notes=tuple(told.notes),
    )  # fmt: skip


def of_trial(measured: Measured) -> Report:
    """Of one that was asked for alone, with no session around it."""
    return Report(
        id=measured.trial_id, kind="trial", ending=ending_of(measured), conditions=conditions_of(measured),
        trials=(trial_of(measured),), observations=(), refused=(), waiting=(), claims=(), scores=(), chain=None,
        notes=(),
    )  # fmt: skip


def proposed(of: e.Proposal) -> Proposed:
    settings = {s.knob: s.value for s in of.candidate}
    return Proposed(words(of.candidate), settings, of.proposer, of.source, of.why, of.claim)


def outcomes_named(entries: Iterable[Entry]) -> dict[int, dict[str, object]]:
    """What the journal holds as evidence of each trial's speed, or of how it broke, by trial."""
    found: dict[int, dict[str, object]] = {}
    number = 0
    for entry in entries:
        number = entry.payload.get("trial", number)
        evidence = entry.payload.get("evidence")
        if entry.kind in ("speedjudged", "broke") and isinstance(evidence, dict) and evidence:
            found.setdefault(number, evidence)
    return found


def _told(entries: Sequence[Entry]) -> _Told:
    told = _Told()
    for entry in entries:
        try:
            event = e.from_plain(entry.kind, entry.payload)
            told.state = fold(told.state, event, entry.mono_ns)
        except (Failed, ValueError) as error:
            left = len(entries) - entry.seq
            told.notes.append(f"entry {entry.seq} cannot follow ({error}); it and what is behind it, {left} entries, "
                              "are not told here. Try: pellucid audit")  # fmt: skip
            break
        _note(told, event, entry.wall_ns)
    return told


def _note(told: _Told, event: e.AnyEvent, wall_ns: int) -> None:
    number = getattr(event, "trial", told.state.trials[-1].number if told.state.trials else 0)
    match event:
        case e.Observed():
            told.observations.append(Observation(event.run, event.says, None, ()))
        case e.Diagnosed() if told.observations:
            ids = tuple(str(f.get("id", "a finding without an id")) for f in event.findings)
            told.observations[-1] = replace(told.observations[-1], verdict=event.verdict, findings=ids)
        case e.Proposed():
            told.notes += event.trouble
        case e.Guarded() if event.allowed:
            told.ruling = Ruling(event.way or "", event.notes)
        case e.TrialStarted():
            told.seen[event.trial] = Seen(told.ruling, wall_ns, wall_ns)
        case e.Peeked():
            told.seen[number].peeks.append(event)
        case e.Resumed():
            told.notes.append(f"a process was killed, and another one took over{_torn(event.torn_bytes)}")
        case e.Interrupted():
            told.notes.append(f"interrupted: {event.says}")
        case e.Undone():
            told.notes.append(f"trial {event.trial} was undone: {event.says}")
    if hasattr(event, "trial") and not isinstance(event, e.Undone):
        told.seen[number].last_wall_ns = wall_ns


def _torn(torn_bytes: int) -> str:
    return f"; it left a line of {torn_bytes} bytes without its end, on which nothing was done" if torn_bytes else ""
