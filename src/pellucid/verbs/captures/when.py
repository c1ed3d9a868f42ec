"""When to capture: a condition on an observation, a new finding, or a time that passed; and how much it may cost.

    condition("itl_p99 > 3x baseline")      Condition("itl_p99_ns", ">", times=3.0)
    condition("ttft_p95 > 2s")              Condition("ttft_p95_ns", ">", value=2e9)
    condition("finding")                    any finding of `why` that was not there before

A budget keeps what captures cost the engine under a share of the time since the first look.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.catalog.load import observations
from pellucid.core.errors import AskedWrongly
from pellucid.core.units import parse_span_ns, unit_of

SHARE = 0.01            # of wall time: what DESIGN allows captures that nobody asked for one by one
GUESS_NS = 500_000_000  # chosen: a first capture is taken to cost what one of 10 steps may cost at most
OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_WORDS = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(>=|<=|>|<)\s*(\S+?)(?:\s*(x)\s*baseline|\s*(%))?\s*\Z")
GRAMMAR = "write it as: METRIC > 3x baseline, METRIC > VALUE, or finding"


@dataclass(frozen=True, slots=True)
class Condition:
    """Of an observation of the matrix, over its newest window."""

    metric: str
    operator: str
    times: float | None = None      # of the baseline
    value: float | None = None      # in the metric's unit

    def __str__(self) -> str:
        limit = f"{self.value:g}" if self.times is None else f"{self.times:g} times its baseline"
        return f"{self.metric} {self.operator} {limit}"

    def met(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """A value or a baseline that is not there meets nothing."""
        row = next(r for r in rows if r["metric"] == self.metric)
        limit = self.value
        if self.times is not None:
            limit = None if row["baseline"] is None else self.times * row["baseline"]
        return row["value"] is not None and limit is not None and OPERATORS[self.operator](row["value"], limit)


def condition(text: str) -> Condition | None:
    """None for "finding". Raises AskedWrongly on anything else that is no condition."""
    if text.strip() == "finding":
        return None
    found = _WORDS.match(text)
    if found is None:
        raise AskedWrongly(f"--when {text!r}: {GRAMMAR}")
    name, sign, number, times, percent = found.groups()
    metric = _metric(name, text)
    if times:
        return Condition(metric, sign, times=_number(number, text))
    if percent:
        return Condition(metric, sign, value=_number(number, text) / 100)
    if unit_of(metric) == "ns":
        try:
            return Condition(metric, sign, value=parse_span_ns(number))
        except ValueError as error:
            raise AskedWrongly(f"--when {text!r}: {number!r} is no span such as 500ms, 2s") from error
    return Condition(metric, sign, value=_number(number, text))


def _metric(name: str, text: str) -> str:
    known = list(observations())
    fitting = [m for m in known if m == name or m.removesuffix(f"_{unit_of(m)}") == name]
    if len(fitting) != 1:
        raise AskedWrongly(f"--when {text!r}: no observation is called {name}. Known: {', '.join(known)}")
    return fitting[0]


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise AskedWrongly(f"--when {whole!r}: {text!r} is no number; {GRAMMAR}")
    return number


@dataclass(slots=True)
class Budget:
    """What captures may hold the engine up, as a share of the time since `began_ns`."""

    began_ns: int
    share: float = SHARE
    spent_ns: int = 0
    _costs: list[int] = field(default_factory=list)

    def allows(self, now_ns: int) -> bool:
        """Whether one more, as dear as the dearest so far, stays within it."""
        return self.spent_ns + max(self._costs, default=GUESS_NS) <= self.share * (now_ns - self.began_ns)

    def pay(self, cost_ns: int) -> None:
        self.spent_ns += cost_ns
        self._costs.append(cost_ns)
