"""The span a diagnosis looks at, and its windows: five parts with the same busy time.

    |== ==      idle      ==|== == ==|= = ====|========|====   ==|
     window 0               1        2        3        4

Idle time does not count, so a recording with a pause in it still has five windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pellucid.diagnose.evidence import Evidence, Window
from pellucid.diagnose.rule import Need

NEEDS = (Need("steps", ("start_ns", "end_ns"), "run the engine with the probe: its engine core writes the steps"),)
WINDOWS = 5
BUCKETS = 2_000        # resolution of the cut: 30 ms in a recording of a minute


@dataclass(frozen=True, slots=True)
class Span:
    start_ns: int
    end_ns: int
    busy_ns: int               # time in steps
    windows: tuple[Window, ...]


def span_of(evidence: Evidence) -> Span | None:
    """From the first step's start to the last one's end; None when no step was recorded."""
    (edge,) = evidence.rows("SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM _all_steps")
    first_ns, last_ns = edge["first_ns"], edge["last_ns"]
    if first_ns is None or last_ns is None:
        return None
    start_ns, end_ns = int(first_ns), int(last_ns)
    buckets = _busy(evidence, start_ns, end_ns + 1)
    edges = [None, *_cuts(buckets, WINDOWS), None]
    windows = tuple(Window(a, b) for a, b in pairwise(edges))
    return Span(start_ns, end_ns, sum(ns for _, ns in buckets), windows)


def cuts(evidence: Evidence, start_ns: int, end_ns: int, parts: int) -> list[int]:
    """Where to cut [start, end) into parts with the same busy time: fewer cuts than `parts` - 1 in very few steps."""
    return sorted(set(_cuts(_busy(evidence, start_ns, end_ns), parts)) - {start_ns})


def _busy(evidence: Evidence, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """Start of a bucket and the time in the steps that began in it."""
    width_ns = max(1, -(-(end_ns - 1 - start_ns) // BUCKETS))
    return [
        (start_ns + int(r.number("bucket")) * width_ns, int(r["busy_ns"] or 0))
        for r in evidence.rows(
            f"SELECT (start_ns - {start_ns}) // {width_ns} AS bucket, sum(end_ns - start_ns)::BIGINT AS busy_ns "
            f"FROM _all_steps WHERE start_ns >= {start_ns} AND start_ns < {end_ns} GROUP BY 1 ORDER BY 1"
        )
    ]


def _cuts(busy: list[tuple[int, int]], parts: int) -> list[int]:
    """Starts of the buckets at which another part of the busy time is reached."""
    total_ns = sum(ns for _, ns in busy)
    cuts: list[int] = []
    done_ns = 0
    for start_ns, busy_ns in busy:
        while len(cuts) < parts - 1 and done_ns * parts >= total_ns * (len(cuts) + 1):
            cuts.append(start_ns)
        done_ns += busy_ns
    return cuts
