"""A report as data: all that a page shows, in the order in which it shows it.

    Report(id="20261130-091500-a1b2", ending="Kept step_token_budget=512: throughput +8.0% …", conditions=…, trials=…)
    report.json()       the same as dictionaries and lists; null is "not seen", and `missing` says why

Ratios of measures are candidate over present; those of claims and their outcomes how much better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from pellucid.tune.claims import Compared, Score
from pellucid.tune.effect.requests import Spread
from pellucid.tune.events import Broke, Claim, Held, Measure
from pellucid.tune.fidelity.verdict import Fidelity
from pellucid.tune.space import Value

# tried: a trial alone, which is judged and never kept
State = Literal["kept", "rolled back", "not rolled back", "undone", "running", "cut off", "tried"]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What has to be told beside any number. None is what was not recorded."""

    engine: str | None
    engine_version: str | None
    model: str | None
    machine: str | None
    places: tuple[str, ...]
    command: tuple[str, ...]       # the present configuration's, as the user gave it
    workload: str | None
    traffic: dict[str, Any]        # speed, share of its tokens …
    seed: int | None
    slo: str | None                # "" where none was asked for
    maximise: str | None
    budget_ns: int | None
    spent_ns: int
    error_ratio: float | None      # chance that anything is kept that is no better, over the session
    may_restart: bool | None
    control: bool | None


@dataclass(frozen=True, slots=True)
class Observation:
    run: str
    says: str
    verdict: str | None            # of the diagnosis; None where it came to none
    findings: tuple[str, ...]      # ids of rules


@dataclass(frozen=True, slots=True)
class Proposed:
    """Where a candidate came from."""

    candidate: str
    settings: dict[str, Value]
    proposer: str
    source: str
    why: str
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Refusal:
    proposed: Proposed
    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """The guard's, of a candidate that was tried."""

    way: str
    notes: tuple[str, ...]         # what it did not know


@dataclass(frozen=True, slots=True)
class Look:
    """What was known of a metric after some pairs."""

    pairs_count: int
    measured_ns: int | None        # None in a journal's peeks
    ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    word: str


@dataclass(frozen=True, slots=True)
class Course:
    """The verdict on one metric over time."""

    metric: str
    margin_ratio: float | None     # None where only the journal's peeks are there
    bias_ratio: float | None       # what two engines may differ by alone
    looks: tuple[Look, ...]


@dataclass(frozen=True, slots=True)
class Arms:
    """One metric in each block of both arms, pair by pair."""

    metric: str
    present: tuple[float | None, ...]
    candidate: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    says: str
    log_tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Speed:
    word: str
    reason: str
    measures: tuple[Measure, ...]
    guards: tuple[Held, ...]
    pairs_count: int
    duration_ns: int
    minutes_needed: float | None
    error_ratio: float | None      # chance that this candidate, were it no better, is called so


@dataclass(frozen=True, slots=True)
class Answers:
    """The verdict on fidelity."""

    word: str
    says: str
    detail: Fidelity | None        # None where the journal has the word alone


@dataclass(frozen=True, slots=True)
class Trial:
    number: int
    proposed: Proposed
    command: tuple[str, ...]       # the candidate's; () where no engine was started for it, or nobody wrote it down
    state: State
    why: str                       # why it ended so
    ruling: Ruling | None
    speed: Speed | None
    answers: Answers | None
    courses: tuple[Course, ...]    # the goal first
    arms: tuple[Arms, ...]
    requests: tuple[Spread, ...]   # latencies of single requests; () where the trial kept blocks only
    broke: Broke | None
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]       # what is not shown, and why
    began_wall_ns: int | None      # UNIX ns
    took_ns: int | None            # None while it goes on


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim beside its outcome."""

    trial: int
    candidate: str
    compared: Compared


@dataclass(frozen=True, slots=True)
class Chain:
    """The audit log's."""

    entries_count: int
    last_hash: str | None
    breaks: tuple[str, ...]        # where it does not hold, in words
    torn_bytes: int                # of a last line that its writer did not finish
    running: bool                  # a process works on it

    @property
    def whole(self) -> bool:
        return not self.breaks


@dataclass(frozen=True, slots=True)
class Report:
    id: str
    kind: Literal["session", "trial"]
    ending: str                    # in one sentence
    conditions: Conditions
    observations: tuple[Observation, ...]
    trials: tuple[Trial, ...]
    refused: tuple[Refusal, ...]
    waiting: tuple[Proposed, ...]
    claims: tuple[Claimed, ...]
    scores: tuple[Score, ...]
    chain: Chain | None            # None for a trial alone, which has no log
    notes: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.chain is not None:
            found["chain"]["whole"] = self.chain.whole
        return found
