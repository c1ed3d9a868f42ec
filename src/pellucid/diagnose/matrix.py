"""The observation matrix: each row of the catalogue with its value, its baseline and its state.

    matrix = observe(run, {})
    matrix.rows[0].value, matrix.rows[0].baseline, matrix.rows[0].state

The baseline is the median over the run's own healthy past, else the catalogue's, else there is none and no state.
`blind` is a fact that was not seen; `not_applicable` a fact that was seen where there was nothing to observe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from pellucid.catalog.load import Observation, observations
from pellucid.core.units import S_NS
from pellucid.diagnose.past import Frame, look_back
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Limit, Rule, Value
from pellucid.diagnose.run import BlindFact
from pellucid.store.read import RunReader

MIN_PAST = Limit(3, "windows", "chosen: the fewest of which a median leaves out an odd one")
COLLECT = {
    "steps": "run the engine with the probe: its engine core writes the steps",
    "requests": "run the engine with the probe: its frontend and engine core write the requests",
    "host": "run the engine with the probe: each process samples itself",
    "gpu": "record on the host of the devices",
    "kv_residency": "run the engine with the probe, or its KV events, and prefix caching on",
    "prefix_lookups": "run the engine with the probe, and prefix caching on",
}
State = Literal["ok", "watch", "bad", "unjudged", "blind", "not_applicable"]
Columns = Mapping[str, Value]      # of all views, of one window


@dataclass(frozen=True, slots=True)
class Observed:
    """One row. What is None is not known; `says` and `collect` tell why and what to do."""

    metric: str
    state: State
    says: str
    value: float | None = None
    numerator: float | None = None             # of a ratio or a rate
    denominator: float | None = None
    over_count: int | None = None              # what the value is taken over: requests, steps, gaps, samples
    baseline: float | None = None
    baseline_from: Literal["own_past", "catalogue"] | None = None
    times_worse: float | None = None           # than the baseline; below 1 is better
    collect: str = ""                          # blind: how to turn it on


@dataclass(frozen=True, slots=True)
class Matrix:
    frame: Frame
    rows: tuple[Observed, ...]


@dataclass(slots=True)
class Seen:
    """How many values of a column there are in the whole run; asked only where one is missing."""

    run: RunReader
    _known: dict[str, dict[str, int]] = field(default_factory=dict)

    def lacking(self, needs: Sequence[str]) -> str:
        """The first of the columns without any value, in words; "" when each has some."""
        for need in needs:
            table, column = need.split(".")
            if need not in self._known:
                sql = f"SELECT count(*) AS rows_count, count({column}) AS values_count FROM {table}"
                self._known[need] = self.run.one(sql)
            known = self._known[need]
            if not known["rows_count"]:
                return f"no {need}: no row was recorded"
            if not known["values_count"]:
                return f"no {need}: null in all {known['rows_count']:,} rows"
        return ""


def observe(
    run: RunReader, blind: Mapping[str, BlindFact], since_ns: int | None = None, horizon_ns: int | None = None,
    rules: Sequence[Rule] | None = None,
) -> Matrix:  # fmt: skip
    """`blind`: the facts that no process sees, as they last said. Spans are counted back from the last step's end."""
    frame = look_back(run, all_rules() if rules is None else rules, since_ns, horizon_ns)
    windows = _columns(run, frame)
    seen = Seen(run)
    rows = tuple(_row(name, entry, windows, frame, blind, seen) for name, entry in observations().items())
    return Matrix(frame, rows)


def _columns(run: RunReader, frame: Frame) -> Sequence[Columns]:
    """What all views say of each window, by the number of the window."""
    found: list[dict[str, Value]] = [{} for _ in frame.edges]
    for view in dict.fromkeys(v for entry in observations().values() for v in entry.views):
        for row in run.rows(f"SELECT * FROM {view}({list(frame.edges)}::BIGINT[])"):
            found[row["window_number"]] |= row
    return found


def _row(
    metric: str, entry: Observation, windows: Sequence[Columns], frame: Frame, blind: Mapping[str, BlindFact],
    seen: Seen,
) -> Observed:  # fmt: skip
    unseen = next((blind[f] for f in entry.facts if f in blind), None)
    if unseen is not None:
        return Observed(metric, "blind", unseen.reason, collect=unseen.collect)
    value = value_of(metric, entry, windows[-1])
    if value is None:
        lacking = seen.lacking(entry.needs)
        if lacking:
            return Observed(metric, "blind", lacking, collect=COLLECT[lacking.split()[1].split(".")[0]])
        return Observed(metric, "not_applicable", entry.absent)
    over_count = int(windows[-1].get(entry.over) or 0)
    past = [windows[n] for n in frame.healthy]
    own = [v for c in past if _enough(entry, c) and (v := value_of(metric, entry, c)) is not None]
    baseline, baseline_from = _baseline(entry, own)
    state, says, worse = _judge(entry, value, baseline, over_count, len(own))
    return Observed(
        metric, state, says, value, windows[-1].get(entry.numerator), windows[-1].get(entry.denominator), over_count,
        baseline, baseline_from, worse,
    )  # fmt: skip


def value_of(metric: str, entry: Observation, columns: Columns) -> float | None:
    """A column, or a ratio of two; one over time in ns is per second. None where there is nothing to divide by."""
    if entry.value:
        return columns.get(entry.value)
    part, whole = columns.get(entry.numerator), columns.get(entry.denominator)
    if part is None or not whole:
        return None
    return part / whole * (S_NS if metric.endswith("_per_s") else 1)


def _enough(entry: Observation, columns: Columns) -> bool:
    return (columns.get(entry.over) or 0) >= entry.at_least


def _baseline(entry: Observation, own: list[float]) -> tuple[float | None, Literal["own_past", "catalogue"] | None]:
    if len(own) >= MIN_PAST.value:
        return median(own), "own_past"
    return (None, None) if entry.baseline is None else (entry.baseline, "catalogue")


def _judge(
    entry: Observation, value: float, baseline: float | None, over_count: int, own_count: int
) -> tuple[State, str, float | None]:
    if entry.worse == "neither":
        return "unjudged", "neither way is worse", None
    if baseline is None:
        few = f"{own_count} healthy windows before had enough of it"
        return "unjudged", f"no baseline: {few}, and it takes {MIN_PAST.value:.0f}", None
    if over_count < entry.at_least:
        over = entry.over.removesuffix("_count")
        return "unjudged", f"taken over {over_count} {over}, and it takes {entry.at_least}", None
    worse = times_worse(entry, value, baseline)
    if worse >= entry.bad_ratio:
        return "bad", f"{worse:.1f} times worse", worse
    if worse >= entry.watch_ratio:
        return "watch", f"{worse:.1f} times worse", worse
    return "ok", "", worse


def times_worse(entry: Observation, value: float, baseline: float) -> float:
    """1 is the baseline, 2 twice as bad. Whatever is below `least` counts as `least`: too small to matter."""
    now, then = max(value, entry.least), max(baseline, entry.least)
    return now / then if entry.worse == "higher" else then / now
