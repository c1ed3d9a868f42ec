"""Where a session of the loop is: a fold of its events. The same events give the same state, in any process.

    state = replay(entries)          after kill -9: the journal is all there is
    state = fold(state, event, mono_ns)
    state.phase                      "trying"
    state.present                    (Setting("max_running_requests", 64),)    what was kept so far

phases   observing → diagnosing → proposing → guarding → ready → trying → verifying → keeping | rolling back → …
                                                              (a kept one: observing again; else the next proposal)

An event that cannot follow is refused with ValueError, so a state with a candidate kept without both verdicts is not
to be had. Time that nobody worked, between a kill and a resumption, is not spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pellucid.core.errors import Failed
from pellucid.tune import events as e
from pellucid.tune.effect.spend import Spend
from pellucid.tune.journal import Entry
from pellucid.tune.memory import Way
from pellucid.tune.space import Candidate, merged

Phase = Literal["new", "observing", "diagnosing", "proposing", "guarding", "ready", "trying", "verifying", "keeping",
                "rolling back", "finished"]  # fmt: skip
IN_TRIAL: tuple[Phase, ...] = ("trying", "verifying", "keeping", "rolling back")
MOST_ATTEMPTS = 2      # chosen: a trial that was killed once may have had bad luck; twice, and it may be what kills


@dataclass(frozen=True, slots=True)
class Trial:
    number: int                              # from 1, as it is started
    proposal: e.Proposal
    started: e.TrialStarted
    speed: e.SpeedJudged | None = None
    fidelity: e.FidelityJudged | None = None
    broke: e.Broke | None = None
    interrupted: bool = False
    end: Literal["", "kept", "rolled back", "not rolled back", "undone"] = ""
    says: str = ""                           # why it ended so


@dataclass(frozen=True, slots=True)
class Refused:
    proposal: e.Proposal
    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class State:
    phase: Phase = "new"
    started: e.Started | None = None
    present: Candidate = ()                  # kept so far, over the user's command
    run: str = ""                            # of the last observation
    findings: tuple[dict[str, object], ...] = ()
    queue: tuple[e.Proposal, ...] = ()
    way: Way | None = None                   # in which the first of the queue may be tried
    exhausted: bool = False                  # no proposer will have more
    round_tried: bool = True                 # whether the last round of proposals led to a trial
    dry_rounds_count: int = 0                # rounds in a row that did not
    trials: tuple[Trial, ...] = ()
    refused: tuple[Refused, ...] = ()
    stop: e.Ending | None = None             # after the present trial is taken back
    stop_says: str = ""
    spent_ns: int = 0
    last_ns: int = 0                         # of the last event
    finished: e.Finished | None = None

    @property
    def trial(self) -> Trial | None:
        """The one under way."""
        return self.trials[-1] if self.phase in IN_TRIAL else None

    @property
    def tried(self) -> tuple[Candidate, ...]:
        """What need not be proposed again: tried, or refused. One that was cut off has another attempt."""
        done = (t.proposal.candidate for t in self.trials
                if not t.interrupted or self.attempts_count(t.proposal.candidate) >= MOST_ATTEMPTS)  # fmt: skip
        return tuple(dict.fromkeys((*done, *(r.proposal.candidate for r in self.refused))))

    def left_ns(self, now_ns: int) -> int:
        """Of the budget. Time may stand still on a host that was restarted; it never runs backwards."""
        budget_ns = self.started.budget_ns if self.started else 0
        return budget_ns - self.spent_ns - max(0, now_ns - self.last_ns)

    def attempts_count(self, candidate: Candidate) -> int:
        return sum(t.proposal.candidate == candidate for t in self.trials)


def replay(entries: Iterable[Entry]) -> State:
    """Raises Failed that names the entry which cannot follow."""
    state = State()
    for entry in entries:
        try:
            state = fold(state, e.from_plain(entry.kind, entry.payload), entry.mono_ns)
        except ValueError as error:
            raise Failed(f"entry {entry.seq} of the journal cannot follow: {error}. Try: pellucid audit") from error
    return state


def fold(state: State, event: e.AnyEvent, mono_ns: int) -> State:
    """Raises ValueError for an event that cannot follow."""
    fresh = isinstance(event, e.Started | e.Resumed | e.Undone)
    spent_ns = state.spent_ns + (0 if fresh else max(0, mono_ns - state.last_ns))
    timed = replace(state, spent_ns=spent_ns, last_ns=mono_ns)
    match event:
        case e.Started():
            _in(state, event, "new")
            return replace(timed, phase="observing" if event.mode == "tune" else "proposing", started=event)
        case e.Resumed() | e.Interrupted() | e.Broke() | e.Finished():
            return _anywhere(timed, event)
        case e.Observed():
            _in(state, event, "observing")
            return replace(timed, phase="diagnosing", run=event.run)
        case e.Diagnosed():
            _in(state, event, "diagnosing")
            return replace(timed, phase="proposing", findings=tuple(event.findings))
        case e.Proposed():
            _in(state, event, "proposing")
            return _proposed(timed, event)
        case e.Guarded():
            _in(state, event, "guarding")
            return _guarded(timed, event)
        case e.Undone():
            _in(state, event, "finished")
            return _undone(timed, event)
        case _:
            return _trial(timed, event)


def _proposed(state: State, event: e.Proposed) -> State:
    dry = 0 if state.round_tried else state.dry_rounds_count + 1
    return replace(state, phase="guarding" if event.proposals else "proposing", queue=event.proposals,
                   exhausted=event.done, round_tried=False, dry_rounds_count=dry)  # fmt: skip


def _guarded(state: State, event: e.Guarded) -> State:
    if event.allowed:
        if event.way is None:
            raise ValueError("a proposal was allowed in no way")
        return replace(state, phase="ready", way=event.way)
    refused = Refused(state.queue[0], event.check, event.reason)
    return _next(replace(state, refused=(*state.refused, refused), queue=state.queue[1:]))


def _undone(state: State, event: e.Undone) -> State:
    kept = [t for t in state.trials if t.end == "kept"]
    if not kept or kept[-1].number != event.trial:
        raise ValueError(f"trial {event.trial} is not the last that was kept")
    trials = tuple(replace(t, end="undone", says=event.says) if t is kept[-1] else t for t in state.trials)
    present: Candidate = ()
    for trial in kept[:-1]:
        present = merged(present, trial.proposal.candidate)
    return replace(state, trials=trials, present=present)


def _trial(state: State, event: e.AnyEvent) -> State:
    """Events of one trial; each names it, so one that came late is noticed."""
    if isinstance(event, e.TrialStarted):
        _in(state, event, "ready")
        if event.trial != len(state.trials) + 1:
            raise ValueError(f"trial {event.trial} started where trial {len(state.trials) + 1} is due")
        total = state.started.error_ratio if state.started else 0.0
        if event.error_ratio > Spend(event.trial, total).level * (1 + 1e-9):     # as another machine rounds
            raise ValueError(f"trial {event.trial} would spend {event.error_ratio} of {total}, more than its share")
        if event.way != state.way:
            raise ValueError(f"trial {event.trial} started {event.way} where {state.way} was allowed")
        trial = Trial(event.trial, state.queue[0], event)
        return replace(state, phase="trying", trials=(*state.trials, trial), queue=state.queue[1:], round_tried=True)
    trial_now = state.trial
    number = getattr(event, "trial", None)
    if trial_now is None or number != trial_now.number:
        raise ValueError(f"{e.kind_of(event)} of trial {number} in phase {state.phase!r}")
    match event:
        case e.Peeked():
            _in(state, event, "trying")
            return state
        case e.SpeedJudged():
            _in(state, event, "trying")
            return _set(state, "verifying" if fast(event) else "rolling back", speed=event)
        case e.FidelityJudged():
            _in(state, event, "verifying")
            asked = state.started is not None and state.started.mode == "tune"
            keeps = event.word == "same" and asked
            return _set(state, "keeping" if keeps else "rolling back", fidelity=event)
        case e.Kept():
            _in(state, event, "keeping")
            present = merged(state.present, trial_now.proposal.candidate)
            kept = _set(state, "observing", end="kept", says=event.says)
            return replace(kept, present=present, queue=(), exhausted=False)
        case e.RolledBack() | e.NotRolledBack():
            _in(state, event, *IN_TRIAL)     # taking back is right at any time
            return _rolled_back(state, trial_now, event)
    raise ValueError(f"{e.kind_of(event)} in phase {state.phase!r}")


def fast(speed: e.SpeedJudged) -> bool:
    """Better, and everything that must not get worse was seen and held."""
    return speed.word == "better" and all(g.held is True for g in speed.guards)


def _rolled_back(state: State, trial: Trial, event: e.RolledBack | e.NotRolledBack) -> State:
    if isinstance(event, e.NotRolledBack):
        stopped = _set(state, "proposing", end="not rolled back", says=event.says)
        return replace(stopped, stop="not rolled back", stop_says=event.says)
    ended = _set(state, state.phase, end="rolled back", says=event.says)
    again = trial.interrupted and ended.attempts_count(trial.proposal.candidate) < MOST_ATTEMPTS
    return _next(replace(ended, queue=(trial.proposal, *ended.queue)) if again else ended)


def _anywhere(state: State, event: e.Resumed | e.Interrupted | e.Broke | e.Finished) -> State:
    if state.phase in ("new", "finished"):
        raise ValueError(f"{e.kind_of(event)} in phase {state.phase!r}")
    in_trial = state.trial is not None
    match event:
        case e.Finished():
            if in_trial:
                raise ValueError(f"finished in phase {state.phase!r}: the trial was not taken back")
            return replace(state, phase="finished", finished=event)
        case e.Resumed():
            undecided = in_trial and state.phase != "rolling back"
            return _set(state, "rolling back", interrupted=True) if undecided else state
        case e.Interrupted():
            state = _stop(state, "interrupted", event.says)
            return _set(state, "rolling back", says=event.says) if in_trial else state
        case e.Broke():
            if in_trial and state.phase != "rolling back":
                state = _set(state, "rolling back", broke=event)
            if event.who == "serving":
                return _stop(state, "serving engine died", event.says)
            return state if in_trial and event.who != "loop" else _stop(state, "failed", event.says)


def _stop(state: State, word: e.Ending, says: str) -> State:
    """The first reason stands."""
    return state if state.stop else replace(state, stop=word, stop_says=says)


def _next(state: State) -> State:
    return replace(state, phase="guarding" if state.queue else "proposing")


def _set(state: State, phase: Phase, **changes: object) -> State:
    """The phase, and what is known of the present trial."""
    trial = replace(state.trials[-1], **changes)  # type: ignore[arg-type]
    return replace(state, phase=phase, trials=(*state.trials[:-1], trial))


def _in(state: State, event: e.AnyEvent, *phases: Phase) -> None:
    if state.phase not in phases:
        raise ValueError(f"{e.kind_of(event)} in phase {state.phase!r}")
