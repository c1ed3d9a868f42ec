"""The span a diagnosis looks at, and its windows: five parts with the same busy time.

    |== ==      idle      ==|== == ==|= = ====|========|====   ==|
     window 0               1        2        3        4

Idle time does not count, so a recording with a pause in it still has five windows. A window is [start, end).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pellucid.store.read import RunReader

WINDOWS = 5
BUCKETS = 2_000        # resolution of the cut: 30 ms in a recording of a minute


@dataclass(frozen=True, slots=True)
class Window:
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Span:
    start_ns: int
    end_ns: int
    busy_ns: int               # time in steps
    windows: tuple[Window, ...]


def span_of(run: RunReader, since_ns: int | None) -> Span | None:
    """The recorded span, or its last `since_ns`; None when no step was recorded in it."""
    edge = run.one("SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM steps")
    if edge["first_ns"] is None or edge["last_ns"] is None:
        return None
    start_ns, end_ns = edge["first_ns"], edge["last_ns"] + 1
    if since_ns is not None:
        start_ns = max(start_ns, end_ns - since_ns)
    width_ns = max(1, -(-(end_ns - start_ns) // BUCKETS))
    busy = run.rows(
        "SELECT (start_ns - $a) // $w AS bucket, sum(end_ns - start_ns)::BIGINT AS busy_ns "
        "FROM steps WHERE start_ns >= $a GROUP BY 1 ORDER BY 1",
        {"a": start_ns, "w": width_ns},
    )
    if not busy:
        return None
    total_ns = sum(b["busy_ns"] or 0 for b in busy)
    cuts = _cuts([(start_ns + b["bucket"] * width_ns, b["busy_ns"] or 0) for b in busy], total_ns)
    edges = [start_ns, *cuts, end_ns]
    windows = tuple(Window(a, b) for a, b in pairwise(edges))
    return Span(start_ns, end_ns, total_ns, windows)


def _cuts(busy: list[tuple[int, int]], total_ns: int) -> list[int]:
    """Starts of the buckets at which another fifth of the busy time is reached."""
    cuts: list[int] = []
    done_ns = 0
    for start_ns, busy_ns in busy:
        while len(cuts) < WINDOWS - 1 and done_ns * WINDOWS >= total_ns * (len(cuts) + 1):
            cuts.append(start_ns)
        done_ns += busy_ns
    return cuts
