"""What happens in a session of the loop. The journal holds these and nothing else, so they are all of its state.

    Started(…) → Observed → Diagnosed → Proposed(proposals) → Guarded(allowed) → TrialStarted → Peeked … → SpeedJudged
        → FidelityJudged → Kept | RolledBack → Observed …            → Finished

Each becomes one line, under its tag: to_plain(Kept(trial=2, says="restarted")) == {"trial": 2, "says": "restarted"}.
Ratios of measures are candidate over present, as the judge of speed gives them; of claims, how much better.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pellucid.core.errors import Failed
from pellucid.tune.memory import Way
from pellucid.tune.space import Candidate, Value

SpeedWord = Literal["better", "worse", "no difference", "inconclusive"]
FidelityWord = Literal["same", "different", "inconclusive", "blind", "failed"]
Ending = Literal["done", "budget", "interrupted", "serving engine died", "failed", "not rolled back"]


class Claim(msgspec.Struct, frozen=True):
    """Relative improvement of a catalog metric: 0.3 is 30 % less, or more where more is better."""

    metric: str
    low_ratio: float
    high_ratio: float


class Proposal(msgspec.Struct, frozen=True):
    candidate: Candidate
    proposer: str                  # rules, list, or the name of an outside program
    source: str                    # the rule's id; "" where the proposer is all that is known
    why: str
    claim: Claim | None = None


class Measure(msgspec.Struct, frozen=True):
    """One metric of a trial, candidate over present, with the bounds of its confidence sequence."""

    metric: str
    ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    word: str = ""


class Held(msgspec.Struct, frozen=True):
    """Something that must not get worse while another thing gets better."""

    name: str
    held: bool | None              # None: not seen, and so not held
    says: str


class Event(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    """Any of these."""


class Started(Event, frozen=True):
    mode: Literal["tune", "try"]   # try: one proposal that is judged and never kept
    command: tuple[str, ...]       # the user's, as given: what undo goes back to
    env: dict[str, str]
    engine: str
    engine_version: str
    engine_config: dict[str, Any]
    workload: str
    slo: str
    maximise: str
    budget_ns: int
    error_ratio: float             # chance of keeping anything that is no better, over the whole session
    may_restart: bool
    control: bool                  # live knobs of the serving engine may be set


class Observed(Event, frozen=True):
    run: str
    says: str


class Diagnosed(Event, frozen=True):
    verdict: str
    findings: list[dict[str, Any]]   # as in `why --json`


class Proposed(Event, frozen=True):
    proposals: tuple[Proposal, ...]
    done: bool                     # no proposer will have more
    trouble: tuple[str, ...] = ()  # proposers that failed, proposals that do not read


class Guarded(Event, frozen=True):
    """Of the first proposal in the queue."""

    allowed: bool
    check: str                     # which one decided; "" where all passed
    reason: str
    notes: tuple[str, ...] = ()    # what is not known
    way: Way | None = None         # in which it may be tried


class TrialStarted(Event, frozen=True):
    """Written before anything boots and before any knob is set: all that taking it back needs."""

    trial: int
    way: Way
    error_ratio: float             # this trial's share
    command: tuple[str, ...] = ()  # the candidate's
    env: dict[str, str] = {}
    old_values: dict[str, Value] = {}    # of live knobs, before


class Peeked(Event, frozen=True):
    """The verdict so far."""

    trial: int
    pairs_count: int
    word: str
    measures: tuple[Measure, ...]


class SpeedJudged(Event, frozen=True):
    trial: int
    word: SpeedWord
    measures: tuple[Measure, ...]
    guards: tuple[Held, ...]
    pairs_count: int
    duration_ns: int
    minutes_needed: float | None = None
    evidence: dict[str, Any] = {}


class FidelityJudged(Event, frozen=True):
    trial: int
    word: FidelityWord
    says: str
    evidence: dict[str, Any] = {}


class Broke(Event, frozen=True):
    """Something ended that should not have. Whose fault it was decides what comes next."""

    who: Literal["candidate", "client", "serving", "loop"]
    says: str
    evidence: dict[str, Any] = {}


class Kept(Event, frozen=True):
    trial: int
    says: str


class RolledBack(Event, frozen=True):
    trial: int
    says: str


class NotRolledBack(Event, frozen=True):
    trial: int
    says: str                      # what is still as the trial made it, and what a person can do


class Interrupted(Event, frozen=True):
    """Ctrl-C, or a polite signal."""

    says: str


class Resumed(Event, frozen=True):
    """A new process took the session over: the one before is gone, whatever it was doing."""

    torn_bytes: int                # of a last line that it did not finish


class Finished(Event, frozen=True):
    word: Ending
    says: str


class Undone(Event, frozen=True):
    """What a finished session had kept was taken out of it again, the last one first."""

    trial: int
    says: str                      # the command of before


AnyEvent = (
    Started | Observed | Diagnosed | Proposed | Guarded | TrialStarted | Peeked | SpeedJudged | FidelityJudged | Broke
    | Kept | RolledBack | NotRolledBack | Interrupted | Resumed | Finished | Undone
)


def kind_of(event: Event) -> str:
    return type(event).__name__.lower()


def to_plain(event: Event) -> dict[str, Any]:
    """What goes into a line beside its kind. Raises ValueError for a number that is none (NaN)."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    del plain["kind"]
    return plain


def from_plain(kind: str, payload: dict[str, Any]) -> AnyEvent:
    """Raises Failed where this version does not know such an event."""
    try:
        found: AnyEvent = msgspec.convert({**payload, "kind": kind}, AnyEvent)
    except msgspec.ValidationError as error:
        raise Failed(f"the journal has an entry {kind!r} that does not read ({error}): another version of pellucid wrote it, or it was edited. Try: pellucid audit") from error  # noqa: E501
    return found
