"""What a trial left behind, read back: the object of its outcome.json → a frozen record, as far as a report needs it.

    measured({"trial_id": "20261130-091500-a1b2", "word": "worse", "pairs": […], …})     Measured(…)
    measured({"pairs": 3})                 "the outcome does not read (…): another version of pellucid wrote it"

It is written by `pellucid.verbs.loop.trial.outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pellucid.tune.command import Command, shareable
from pellucid.tune.effect.judge import Effect
from pellucid.tune.effect.pairs import DIRECTIONS, Pair
from pellucid.tune.effect.requests import Spread
from pellucid.tune.fidelity.verdict import Fidelity
from pellucid.tune.report.shape import Arms, Course, Look, Trouble
from pellucid.tune.space import Value


@dataclass(frozen=True, slots=True)
class Where:
    machine: str
    places: tuple[str, ...]
    engine: str
    engine_version: str
    model: str
    command: tuple[str, ...]
    workload: str
    traffic: dict[str, Any]
    block_ns: int
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True)
class Start:
    number: int
    kind: str                      # trial, or noise
    boot_s: float
    pairs_count: int


@dataclass(frozen=True, slots=True)
class Fault:
    role: str
    word: str
    detail: str
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    trial_id: str
    began_ns: int                  # wall clock, UNIX ns
    took_ns: int
    candidate: str
    settings: dict[str, Value]
    word: str
    reason: str
    conditions: Where
    starts: tuple[Start, ...]
    pairs: tuple[Pair, ...]
    effect: Effect | None
    fidelity: Fidelity | None
    fidelity_blind: str
    troubles: tuple[Fault, ...]
    notes: tuple[str, ...]
    requests: tuple[Spread, ...] = ()      # of single requests; an earlier program kept blocks only

    def courses(self) -> tuple[Course, ...]:
        """The goal first."""
        return tuple(
            Course(m.metric, m.margin_ratio, m.bias_ratio, tuple(
                Look(p.pairs_count, p.measured_ns, p.ratio, p.low_ratio, p.high_ratio, p.word) for p in m.points))
            for m in (self.effect.metrics if self.effect else ())
        )  # fmt: skip

    def arms(self) -> tuple[Arms, ...]:
        """Every metric that any block has."""
        a, b = [p.a for p in self.pairs], [p.b for p in self.pairs]
        found = (Arms(m, tuple(getattr(x, m) for x in a), tuple(getattr(x, m) for x in b)) for m in DIRECTIONS)
        return tuple(a for a in found if any(v is not None for v in (*a.present, *a.candidate)))

    def faults(self) -> tuple[Trouble, ...]:
        return tuple(Trouble(f"{f.role} {f.word}: {f.detail}", f.log_tail) for f in self.troubles)

    def command(self) -> tuple[str, ...]:
        """Of the present configuration, as it may be shown."""
        return shareable(Command(self.conditions.command)).argv

    def all_notes(self) -> tuple[str, ...]:
        starts = [f"start {s.number}: {s.kind}, {s.pairs_count} pairs, up after {s.boot_s:.0f} s" for s in self.starts]
        left = [f"{count} requests were left out: {reason}" for reason, count in self.conditions.left_out.items()]
        return (*starts, *left, *self.notes)


def measured(plain: object) -> Measured | str:
    """Or why it does not read, in words."""
    try:
        return msgspec.convert(plain, Measured)
    except msgspec.ValidationError as error:
        return f"the outcome does not read ({error}): another version of pellucid wrote it, or it was edited"
