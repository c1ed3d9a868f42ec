"""What the loop does next: a state → one action. And the loop itself: perform, write down, fold, until nothing is left.

    next_action(state, now_ns)      RunTrial(2, proposal, way="beside", error_ratio=0.0015, at_most_ns=540_000_000_000)
    run(state, desk)                → the finished state

    observe → diagnose → propose → guard → trial → verify → keep | roll back → observe

Actions are performed by verbs, which answer with events (`pellucid.tune.events`). An event is folded before it is
written and written before the next action, so the journal never holds what cannot follow, and whatever was begun is in
it. After kill -9 the first event of the new process is Resumed: a trial that was under way is taken back first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from pellucid.core.errors import PellucidError
from pellucid.core.units import counted, duration
from pellucid.tune import events as e
from pellucid.tune.effect.spend import Spend
from pellucid.tune.memory import Way
from pellucid.tune.space import Candidate, words
from pellucid.tune.state import State, fast, fold

MOST_DRY_ROUNDS = 3      # chosen: an outside program reads why it was refused, and may do better twice


@dataclass(frozen=True, slots=True)
class Observe:
    """Record the present configuration under the workload → Observed."""

    present: Candidate


@dataclass(frozen=True, slots=True)
class Diagnose:
    """→ Diagnosed."""

    run: str


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask every proposer → Proposed. What is in `seen` need not come again."""

    seen: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """→ Guarded, before anything boots."""

    proposal: e.Proposal


@dataclass(frozen=True, slots=True)
class RunTrial:
    """→ TrialStarted first, Peeked as often as there is news, SpeedJudged at the end; or Broke."""

    trial: int
    proposal: e.Proposal
    way: Way
    error_ratio: float
    at_most_ns: int


@dataclass(frozen=True, slots=True)
class JudgeFidelity:
    """→ FidelityJudged."""

    trial: int
    proposal: e.Proposal
    at_most_ns: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Make the candidate the present configuration → Kept."""

    trial: int
    proposal: e.Proposal


@dataclass(frozen=True, slots=True)
class RollBack:
    """Everything as it was before the trial, whether or not anything was changed → RolledBack or NotRolledBack.

    Asked for again where it was cut short, so it must do no harm twice.
    """

    trial: int
    started: e.TrialStarted
    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """→ Finished."""

    word: e.Ending
    says: str


Action = Observe | Diagnose | Propose | Guard | RunTrial | JudgeFidelity | Keep | RollBack | Finish


@dataclass(frozen=True, slots=True)
class Desk:
    """What the loop needs of the world."""

    perform: Callable[[Action], Iterable[e.AnyEvent]]
    record: Callable[[e.AnyEvent], int]        # on disk when it returns; → CLOCK_MONOTONIC of the entry
    replay: Callable[[], State]                # of all that is on disk
    now_ns: Callable[[], int]


def next_action(state: State, now_ns: int) -> Action | None:
    """None when the session is finished. The same state and time give the same action."""
    if state.phase in ("new", "finished"):
        return None
    if (trial := state.trial) is not None:
        left_ns = state.left_ns(now_ns)
        if state.phase == "keeping":
            return Keep(trial.number, trial.proposal)
        if state.phase == "verifying" and left_ns > 0:
            return JudgeFidelity(trial.number, trial.proposal, left_ns)
        return RollBack(trial.number, trial.started, why_not(state))
    if state.stop is not None:
        return Finish(state.stop, f"{state.stop_says}; {summary(state)}")
    if (left_ns := state.left_ns(now_ns)) <= 0:
        return Finish("budget", f"the budget is spent; {summary(state)}")
    return _search(state, left_ns)


def _search(state: State, left_ns: int) -> Action:
    if state.phase == "observing":
        return Observe(state.present)
    if state.phase == "diagnosing":
        return Diagnose(state.run)
    if state.phase == "guarding":
        return Guard(state.queue[0])
    if state.phase == "ready":
        assert state.started is not None and state.way is not None
        number = len(state.trials) + 1
        share = Spend(number, state.started.error_ratio).level
        return RunTrial(number, state.queue[0], state.way, share, left_ns)
    dry = state.dry_rounds_count + (not state.round_tried)
    if state.exhausted or dry >= MOST_DRY_ROUNDS:
        return Finish("done", summary(state))
    return Propose(state.tried)


def run(state: State, desk: Desk) -> State:
    """Until the session is finished. Ctrl-C takes back what is under way and ends it; so does an error of ours."""
    while (action := next_action(state, desk.now_ns())) is not None:
        before, events = state, iter(desk.perform(action))
        try:
            with _ended(events):
                for event in events:
                    state = _note(state, event, desk)
        except KeyboardInterrupt:
            # It may have come between an event's writing and its folding; what is on disk is what happened.
            state = desk.replay()
            if state.phase != "finished":
                state = _note(state, e.Interrupted("stopped by Ctrl-C"), desk)
            continue
        except (PellucidError, OSError, ValueError) as error:
            state = _note(state, _fault(state, action, str(error)), desk)
            continue
        if state is before:
            state = _note(state, _fault(state, action, f"{type(action).__name__} came to no end"), desk)
    return state


def _ended(events: Iterator[e.AnyEvent]) -> contextlib.AbstractContextManager[object]:
    """What is performed step by step is ended before anything else is done, however its steps ended."""
    return contextlib.closing(events) if isinstance(events, Generator) else contextlib.nullcontext()


def _note(state: State, event: e.AnyEvent, desk: Desk) -> State:
    """Folds first: what cannot follow must not be written. Then again, with the time of its entry."""
    fold(state, event, desk.now_ns())
    return fold(state, event, desk.record(event))


def _fault(state: State, action: Action, says: str) -> e.AnyEvent:
    if isinstance(action, RollBack):
        return e.NotRolledBack(action.trial, says)
    return e.Broke("candidate" if state.trial is not None else "loop", says)


def why_not(state: State) -> str:
    """Why the present trial is taken back, in words; the first thing that went against it."""
    trial = state.trials[-1]
    if trial.broke is not None:
        return f"{trial.broke.who} broke: {trial.broke.says}"
    if trial.interrupted:
        return "it was interrupted"
    if state.stop is not None:
        return state.stop_says
    if trial.speed is None:
        return "it ended without a verdict on speed"
    if trial.speed.word != "better":
        reason = trial.speed.evidence.get("reason")
        return f"speed: {trial.speed.word}" + (f", {reason}" if reason else "")
    if not fast(trial.speed):
        lost = [g for g in trial.speed.guards if g.held is not True]
        return "; ".join(f"{g.name} {'was not seen' if g.held is None else 'did not hold'}: {g.says}" for g in lost)
    if trial.fidelity is None:
        return "the budget ended before a verdict on fidelity"
    if trial.fidelity.word != "same":
        return f"fidelity: {trial.fidelity.word}, {trial.fidelity.says}"
    return "it was a trial only"


def summary(state: State) -> str:
    """What came of the session, in a sentence."""
    kept = [t for t in state.trials if t.end == "kept"]
    tried = f"{counted(len(state.trials), 'trials')}, {counted(len(state.refused), 'proposals')} refused"
    took = f"{tried}, in {duration(state.spent_ns)}"
    if kept:
        return f"kept {words(state.present)} ({took})"
    if not state.trials:
        return f"nothing was tried ({took})"
    return f"{beaten(state)} ({took})"


def beaten(state: State) -> str:
    """An end without a keep. That nothing beats it is said only where every trial has told so."""
    told = all(t.speed is not None and t.speed.word in ("worse", "no difference") for t in state.trials)
    return "nothing beats the present configuration" if told else "nothing was shown to beat the present configuration"
