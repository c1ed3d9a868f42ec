"""What a rule is: a question, declared needs, one evidence query with one row, a pure `judge`.

    RULE = Rule(id="kv.preemption_storm", question="Does …?", needs=(Need("steps", ("preempted_count",), "…"),),
                evidence="SELECT sum(preempted_count) AS preempted_count FROM steps", judge=judge, …)

The row a rule judges is the row that is printed, so a reader can recompute it. Engine names do not occur here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["found", "clear", "not_applicable", "blind", "broken"]
FOUND: Kind = "found"
CLEAR: Kind = "clear"
NOT_APPLICABLE: Kind = "not_applicable"
BLIND: Kind = "blind"
BROKEN: Kind = "broken"

Value = int | float | None


class Row(dict[str, Value]):
    """An evidence row. `row.number(c)` for what must be there, `row[c]` where null is an answer."""

    def number(self, column: str) -> float:
        """The value, or ValueError when it is null: a null that was not foreseen makes the rule broken, not clear."""
        value = self[column]
        if value is None:
            raise ValueError(f"evidence column {column} is null")
        return value

    def text(self, column: str) -> str:
        """The name of a thing, such as a task: the only text in evidence. ValueError when it is null."""
        name: object = self[column]
        if not isinstance(name, str):
            raise ValueError(f"evidence column {column} is not a name: {name!r}")
        return name


@dataclass(frozen=True, slots=True)
class Need:
    """Columns of one table. Without the `columns` the rule is blind; `optional` ones may be null."""

    table: str
    columns: tuple[str, ...]
    collect: str                        # how to turn them on
    optional: tuple[str, ...] = ()
    fact: str = ""                      # makes the rows: visible and yet no row means that there was nothing to see


@dataclass(frozen=True, slots=True)
class Limit:
    value: float
    unit: str
    because: str                        # source, measurement, or why it was chosen


@dataclass(frozen=True, slots=True)
class Gain:
    """Relative improvement of a catalog metric, 0.3 = 30 % less (or more, where higher is better)."""

    metric: str
    low_ratio: float
    high_ratio: float
    scope: Literal["local", "end_to_end"]


@dataclass(frozen=True, slots=True)
class Move:
    knob: str
    direction: Literal["raise", "lower", "set"]
    cost: str
    present: str = ""      # evidence column with the present value in the knob's unit; "" where none has it


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Kind
    says: str
    gain: Gain | None = None
    targets: Mapping[str, float] = field(default_factory=dict)   # knob → exact value, for the moves that apply
    collect: str = ""                                            # blind: how to turn it on


@dataclass(frozen=True, slots=True)
class Case:
    """Literal tables and the verdict they give. A `repeat` column repeats a row."""

    name: str
    kind: Kind
    tables: Mapping[str, str]
    says: str = ""                      # words the verdict must contain


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    question: str
    needs: tuple[Need, ...]
    evidence: str
    judge: Callable[[Row], Verdict]
    limits: tuple[Limit, ...]
    moves: tuple[Move, ...]
    falsified_by: str
    explained_by: tuple[str, ...]
    cases: tuple[Case, ...]
    instead_of: str = ""   # table whose rows tell the same more finely: the rule is not applicable where they are
    # captures: the evidence asks for enough of them itself, and without one there is nothing to judge
    asked_of: Literal["windows", "captures"] = "windows"
    views: tuple[str, ...] = ()         # of the store, that the evidence reads; they see the needed columns only


def found(says: str, gain: Gain, targets: Mapping[str, float]) -> Verdict:
    return Verdict(FOUND, says, gain, targets)


def clear(says: str) -> Verdict:
    return Verdict(CLEAR, says)


def not_applicable(says: str) -> Verdict:
    return Verdict(NOT_APPLICABLE, says)


def blind(says: str, collect: str) -> Verdict:
    return Verdict(BLIND, says, collect=collect)


def broken(says: str) -> Verdict:
    return Verdict(BROKEN, says)
