"""What changed between two captures, kernel by kernel, and what it costs per step.

    compare(home, "before", "after", "decode").json()
    → {"head": {"per": "step", "a": {…}, "b": {…}}, "notes": […], "units": {…},
       "rows": [{"part": "total", "phase": "decode", "a_ns": 18996210.0, "b_ns": 17010330.0,
                 "difference_ns": -1985880.0, "spread_ns": 401200.0, "state": "changed", …}, …]}

part    step    from its first kernel to its last one           idle   of it without a kernel on the device
        before  the device idle between the step before and it  total  of its kernels, copies and fills not counted
        class   of its kernels, the same                        kernel one name, or one that stands in for another
match   name (the same) · place, op (renamed: how it was told) · added · removed
state   changed · within the spread · same · not judged (one step on a side, or no steps: nothing says how much varies)

A step is one on one device. Times are means over the steps of a phase, where both sides have it; else whole traces are
compared, and a note says so. A difference counts as one above two standard errors of the difference of both means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.core.errors import CannotAnswer
from pellucid.core.units import unit_of
from pellucid.verbs.captures.pairs import Kernels, Key, Pair, Shares, pairs
from pellucid.verbs.captures.remarks import remarks
from pellucid.verbs.captures.sides import Row, Side, side

WHOLE = "whole"                 # stands for the phase where whole traces are compared
ERRORS = 2.0                    # standard errors that a difference has to exceed: 95 of 100 for many steps
ONLY_KERNELS = "kind IN ('kernel', 'op')"

PER_STEP = """
    WITH s AS (SELECT {columns} process, capture, step, device_index, sum(kernels_count) AS n, sum(duration_ns) AS ns
               FROM kernel_step_names
               WHERE list_contains($captures, capture) AND phase IS NOT DISTINCT FROM $phase AND {kinds} GROUP BY ALL)
    SELECT {columns} sum(n)::DOUBLE AS kernels_count, sum(ns)::DOUBLE AS sum_ns, count(*) AS seen_count,
           var_pop(ns) * count(*) AS squares FROM s GROUP BY ALL"""
OF_ALL = """
    SELECT {columns} sum(count)::DOUBLE AS kernels_count, sum(duration_ns)::DOUBLE AS sum_ns FROM kernels
    WHERE list_contains($captures, capture) AND {kinds} GROUP BY ALL"""
PLACES = """
    SELECT class, name, place, sum(kernels_count)::DOUBLE AS n FROM kernel_places
    WHERE list_contains($captures, capture) AND ($whole OR phase IS NOT DISTINCT FROM $phase) GROUP BY ALL"""
OPS = """
    SELECT class, name, op AS place, sum(count)::DOUBLE AS n FROM kernels
    WHERE list_contains($captures, capture) AND ($whole OR phase IS NOT DISTINCT FROM $phase)
      AND kind IN ('kernel', 'op') GROUP BY ALL"""       # a copy to the host stands in for none on the device


@dataclass(frozen=True, slots=True)
class Mean:
    """Per step, or of a whole trace."""

    ns: float | None            # None: no time is told
    error_ns: float | None      # standard error over the steps; None with one step, or none
    kernels_count: float | None


@dataclass(frozen=True, slots=True)
class Line:
    part: str
    phase: str | None           # None: not known, or whole traces
    category: str | None        # "class" in JSON
    name: str | None
    replaced_by: str | None     # the name on side b, where it is another
    match: str | None           # of kernels
    a_kernels_count: float | None
    b_kernels_count: float | None
    a_ns: float | None
    b_ns: float | None
    difference_ns: float | None     # b − a
    of_ns: float | None             # the step of a; of whole traces, the kernel time of a
    difference_ratio: float | None  # difference_ns ÷ of_ns
    spread_ns: float | None         # what a difference has to exceed
    state: str

    def json(self) -> dict[str, Any]:
        row = {"class" if n == "category" else n: v for n, v in asdict(self).items()}
        return {n: round(v, 6 if n == "difference_ratio" else 1) if isinstance(v, float) else v for n, v in row.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    rows: tuple[Line, ...]
    notes: tuple[str, ...]
    head: dict[str, Any]

    def json(self) -> dict[str, Any]:
        rows = [line.json() for line in self.rows]
        return {"head": self.head, "rows": rows, "notes": list(self.notes),
                "units": {n: unit_of(n) for n in (rows[0] if rows else ()) if unit_of(n)}}  # fmt: skip


def compare(home: Path, a: str, b: str, phase: str | None = None, by: str = "kernel") -> Comparison:
    """`by`: kernel, or class for the sums only. Raises CannotAnswer where a side has no kernels, or no step of the
    phase asked for; AskedWrongly where there is no such run, capture or file."""
    sides = side(home, a), side(home, b)
    chosen = _phases(*sides, phase)
    lines = [line for one in chosen or (WHOLE,) for line in _lines(*sides, one, by)]
    head = {"per": "step" if chosen else "trace", "a": sides[0].json(), "b": sides[1].json()}
    return Comparison(tuple(lines), tuple(remarks(*sides, chosen)), head)


def _phases(a: Side, b: Side, wanted: str | None) -> tuple[str | None, ...]:
    """Phases to compare by step; none: whole traces."""
    if wanted is None:
        return tuple(p for p in a.phases if p in b.phases)
    for one in (a, b):
        if wanted not in one.phases:
            has = ", ".join(p or "steps whose phase is not known" for p in one.phases) or "no steps"
            raise CannotAnswer(f"{one.asked} has no {wanted} steps: it has {has}. Try: compare without --phase")
    return (wanted,)


def _lines(a: Side, b: Side, phase: str | None, by: str) -> Iterator[Line]:
    total = [_means(s, phase, "")["", ""] for s in (a, b)]
    steps = list(_step_means(a, b, phase))
    of_ns = steps[0][1].ns if steps else total[0].ns
    for part, x, y in steps:
        yield _line((part, phase), (None, None), None, (x, y), of_ns)
    yield _line(("total", phase), (None, None), None, (total[0], total[1]), of_ns)
    yield from _largest_first(_classes(a, b, phase, of_ns))
    if by == "kernel":
        yield from _largest_first(_kernels(a, b, phase, of_ns))


def _largest_first(lines: Iterator[Line]) -> list[Line]:
    def order(line: Line) -> tuple[float, float, str, str]:
        return -abs(line.difference_ns or 0), -(line.a_ns or line.b_ns or 0), line.category or "", line.name or ""

    return sorted(lines, key=order)


def _step_means(a: Side, b: Side, phase: str | None) -> Iterator[tuple[str, Mean, Mean]]:
    """How the time of a step passed on the device. Operators of the host idle no device."""
    if phase == WHOLE:
        return
    x, y = a.phases[phase], b.phases[phase]
    for part, name, count in (("step", "took", "steps_count"), ("idle", "idle", "steps_count"),
                              ("before", "before", "before_count")):  # fmt: skip
        means = [Mean(r[f"{name}_ns"], _error(r[f"{name}_variance"], r[count]), None) for r in (x, y)]
        if part == "step" or None not in (means[0].ns, means[1].ns):
            yield part, means[0], means[1]


def _error(variance: float | None, count: int) -> float | None:
    return None if variance is None or count < 2 else math.sqrt(max(variance, 0.0) / count)


def _classes(a: Side, b: Side, phase: str | None, of_ns: float | None) -> Iterator[Line]:
    x, y = _means(a, phase, "class,"), _means(b, phase, "class,")
    for key in x.keys() | y.keys():
        means = (x.get(key, _none(a, phase)), y.get(key, _none(b, phase)))
        yield _line(("class", phase), (key, key), None, means, of_ns)


def _kernels(a: Side, b: Side, phase: str | None, of_ns: float | None) -> Iterator[Line]:
    x, y = _means(a, phase, "class, name,"), _means(b, phase, "class, name,")
    for pair in pairs(_seen(a, phase, x), _seen(b, phase, y)):
        means = (x[pair.a] if pair.a else _none(a, phase), y[pair.b] if pair.b else _none(b, phase))
        yield _line(("kernel", phase), (pair.a, pair.b), pair, means, of_ns)


def _means(one: Side, phase: str | None, columns: str) -> dict[Key, Mean]:
    """By class and name, "" for what `columns` leaves out. Steps without a kernel count, with no time of it."""
    kinds = "true" if "name" in columns else ONLY_KERNELS
    found: dict[Key, Mean] = {} if columns else {("", ""): _none(one, phase)}
    if phase == WHOLE:
        for row in one.run.rows(OF_ALL.format(columns=columns, kinds=kinds), {"captures": one.ids}):
            found[_key(row)] = Mean(row["sum_ns"], None, row["kernels_count"])
        return found
    steps = one.phases[phase]["steps_count"]
    asked = {"captures": one.ids, "phase": phase}
    for row in one.run.rows(PER_STEP.format(columns=columns, kinds=kinds), asked):
        seen, squares = row["seen_count"], row["squares"]
        squares += row["sum_ns"] ** 2 / seen * (1 - seen / steps)       # of the steps in which it did not run
        error = _error(squares / (steps - 1) if steps > 1 else None, steps)
        found[_key(row)] = Mean(row["sum_ns"] / steps, error, row["kernels_count"] / steps)
    return found


def _key(row: Row) -> Key:
    return row.get("class") or "", row.get("name") or ""


def _none(one: Side, phase: str | None) -> Mean:
    """Of a kernel that did not run in any step: that is seen, and is no time."""
    judged = phase != WHOLE and one.phases[phase]["steps_count"] > 1
    return Mean(0.0, 0.0 if judged else None, 0.0)


def _seen(one: Side, phase: str | None, means: Mapping[Key, Mean]) -> Kernels:
    asked = {"captures": one.ids, "whole": phase == WHOLE, "phase": None if phase == WHOLE else phase}
    counts = {key: mean.kernels_count or 0.0 for key, mean in means.items()}
    return Kernels(counts, _shares(one.run.rows(PLACES, asked)), _shares(one.run.rows(OPS, asked)))


def _shares(rows: list[Row]) -> dict[Key, Shares]:
    """A kernel without a place or an operator has that part of it nowhere."""
    sums: dict[Key, float] = defaultdict(float)
    for row in rows:
        sums[_key(row)] += row["n"] or 0.0
    shares: dict[Key, dict[object, float]] = defaultdict(dict)
    for row in rows:
        if row["place"] is not None and row["n"]:
            shares[_key(row)][row["place"]] = row["n"] / sums[_key(row)]
    return dict(shares)


def _line(
    part: tuple[str, str | None], keys: tuple[Key | None, Key | None], pair: Pair | None, means: tuple[Mean, Mean],
    of_ns: float | None,
) -> Line:  # fmt: skip
    a, b = means
    key = keys[0] or keys[1] or ("", "")
    other = keys[1][1] if keys[0] and keys[1] and keys[0][1] != keys[1][1] else None
    difference = None if a.ns is None or b.ns is None else b.ns - a.ns
    spread = None if a.error_ns is None or b.error_ns is None else ERRORS * math.hypot(a.error_ns, b.error_ns)
    return Line(
        part=part[0], phase=None if part[1] == WHOLE else part[1], category=key[0] or None, name=key[1] or None,
        replaced_by=other, match=pair.by if pair else None, a_kernels_count=a.kernels_count,
        b_kernels_count=b.kernels_count, a_ns=a.ns, b_ns=b.ns, difference_ns=difference, of_ns=of_ns,
        difference_ratio=difference / of_ns if difference is not None and of_ns else None, spread_ns=spread,
        state=_state(difference, spread),
    )  # fmt: skip


def _state(difference_ns: float | None, spread_ns: float | None) -> str:
    if difference_ns == 0:
        return "same"
    if difference_ns is None or spread_ns is None:
        return "not judged"
    return "changed" if abs(difference_ns) > spread_ns else "within the spread"
