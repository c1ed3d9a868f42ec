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

from pellucid.catalog.load import Observation, Page, observations
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
    "speculation": "run the engine with the probe: its engine core counts drafts",
    "experts": "run the engine with the probe: its workers count experts",
}
Facts = Mapping[str, BlindFact | None]     # None: some process sees it
PAGES = "window_pages"
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
    from_page: bool = False                    # taken from metrics pages, since the facts were not seen
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

    def lacking(self, needs: Sequence[str], watched: bool) -> tuple[str, str] | None:
        """Table and words for the first of the columns without any value; None when each has some. Where somebody
        `watched`, a table without rows means that there was nothing."""
        for need in needs:
            table, column = need.split(".")
            if need not in self._known:
                sql = f"SELECT count(*) AS rows_count, count({column}) AS values_count FROM {table}"
                self._known[need] = self.run.one(sql)
            known = self._known[need]
            if not known["rows_count"]:
                return None if watched else (table, f"no row of {table} was recorded")
            if not known["values_count"]:
                return table, f"no {need}: null in all {known['rows_count']:,} rows"
        return None


def observe(
    run: RunReader, facts: Facts, since_ns: int | None = None, horizon_ns: int | None = None,
    rules: Sequence[Rule] | None = None,
) -> Matrix:  # fmt: skip
    """`facts`: what the processes last said of each. Spans are counted back from the last step's end."""
    frame = look_back(run, all_rules() if rules is None else rules, since_ns, horizon_ns)
    windows = _columns(run, frame)
    seen = Seen(run)
    rows = tuple(_row(name, entry, windows, frame, facts, seen) for name, entry in observations().items())
    return Matrix(frame, rows)


def _columns(run: RunReader, frame: Frame) -> Sequence[Columns]:
    """What all views say of each window, by the number of the window."""
    found: list[dict[str, Value]] = [{} for _ in frame.edges]
    for view in dict.fromkeys((*(v for entry in observations().values() for v in entry.views), PAGES)):
        for row in run.rows(f"SELECT * FROM {view}({list(frame.edges)}::BIGINT[])"):
            found[row["window_number"]] |= row
    return found


def _row(
    metric: str, entry: Observation, windows: Sequence[Columns], frame: Frame, facts: Facts, seen: Seen
) -> Observed:
    unseen = next((blind for f in entry.facts if (blind := facts.get(f))), None)
    if unseen is None and value_of(metric, entry, windows[-1]) is not None:
        return _judged(metric, entry, entry, windows, frame)
    if entry.page and value_of(metric, entry.page, windows[-1]) is not None:
        return _judged(metric, entry, entry.page, windows, frame)
    if unseen is not None:
        return Observed(metric, "blind", unseen.reason, collect=unseen.collect)
    watched = bool(entry.facts) and all(f in facts for f in entry.facts)
    nothing = bool(entry.only_with) and windows[-1].get(entry.only_with) == 0
    if not nothing and (lacking := seen.lacking(entry.needs, watched)):
        table, says = lacking
        return Observed(metric, "blind", says, collect=COLLECT[table])
    return Observed(metric, "not_applicable", entry.absent)


def _judged(
    metric: str, entry: Observation, taken: Observation | Page, windows: Sequence[Columns], frame: Frame
) -> Observed:
    """A row that has a value, `taken` from facts or from pages; its own past is taken from the same."""
    now = windows[-1]
    value, over_count = value_of(metric, taken, now), int(now.get(taken.over) or 0)
    assert value is not None
    past = [windows[n] for n in frame.healthy if (windows[n].get(taken.over) or 0) >= taken.at_least]
    own = [v for columns in past if (v := value_of(metric, taken, columns)) is not None]
    baseline, baseline_from = _baseline(entry, own)
    state, says, worse = _judge(entry, value, baseline, len(own))
    if state != "unjudged" and over_count < taken.at_least:
        few = f"taken over {over_count} {taken.over.removesuffix('_count')}, and it takes {taken.at_least}"
        state, says, worse = "unjudged", few, None
    return Observed(
        metric, state, says, value, now.get(taken.numerator), now.get(taken.denominator), over_count, baseline,
        baseline_from, worse, isinstance(taken, Page),
    )  # fmt: skip


def value_of(metric: str, taken: Observation | Page, columns: Columns) -> float | None:
    """A column, or a ratio of two; one over time in ns is per second. None where there is nothing to divide by."""
    if taken.value:
        return columns.get(taken.value)
    part, whole = columns.get(taken.numerator), columns.get(taken.denominator)
    if part is None or not whole:
        return None
    return part / whole * (S_NS if metric.endswith("_per_s") else 1)


def _baseline(entry: Observation, own: list[float]) -> tuple[float | None, Literal["own_past", "catalogue"] | None]:
    if len(own) >= MIN_PAST.value:
        return median(own), "own_past"
    return (None, None) if entry.baseline is None else (entry.baseline, "catalogue")


def _judge(
    entry: Observation, value: float, baseline: float | None, own_count: int
) -> tuple[State, str, float | None]:
    if entry.worse == "neither":
        return "unjudged", "neither way is worse", None
    if baseline is None:
        few = f"{own_count} healthy windows before had enough of it"
        return "unjudged", f"no baseline: {few}, and it takes {MIN_PAST.value:.0f}", None
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
