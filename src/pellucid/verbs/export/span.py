"""Which part of a run a timeline shows, and where its captures lie on the run's clock.

    span = find_span(run, Wish())
    span.at(row["start_ns"])                      ns since the timeline began
    span.captures["c1", "worker-4711"].shift_ns   what brings its times to the run's clock

A capture of a running engine has the run's clock already. One that was loaded from a file has the clock of that file:
it is placed by its wall time, and where that is not known, or hours away from everything else, where the timeline
begins; then it is marked as on a clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.core.clock import Anchor
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import S_NS
from pellucid.store.read import RunReader

# Chosen: a file recorded further from the run than this is no part of it, and a timeline of days shows nothing.
NEAR_NS = 3600 * S_NS

OF_RUN = """
    SELECT min(least(s, e)) AS first_ns, max(greatest(s, e)) AS last_ns FROM (
        SELECT min(start_ns) AS s, max(end_ns) AS e FROM steps
        UNION ALL SELECT min(coalesce(arrival_ns, queued_ns, scheduled_ns)),
                         max(greatest(arrival_ns, queued_ns, scheduled_ns, last_token_ns, finish_ns, last_delivered_ns))
                  FROM requests
        UNION ALL SELECT min(time_ns), max(time_ns) FROM gpu)"""
CAPTURES = """
    SELECT capture, process, file, device_name, devices_count, compute_capability, processors_count,
           device_memory_bytes, dp_rank, start_ns, end_ns, wall_start_ns, start_cost_ns IS NOT NULL AS live
    FROM captures ORDER BY start_ns, capture, process"""
ANCHOR = """
    SELECT anchor_mono_ns AS mono_ns, anchor_wall_ns AS wall_ns FROM processes
    WHERE anchor_mono_ns IS NOT NULL AND anchor_wall_ns IS NOT NULL
    ORDER BY contains(role, 'engine_core') DESC, start_ns LIMIT 1"""
FIRST = """
    SELECT min(s) AS first_ns FROM (
        SELECT min(start_ns) AS s FROM steps WHERE end_ns >= $lo AND start_ns <= $hi
        UNION ALL SELECT min(coalesce(arrival_ns, queued_ns, scheduled_ns)) FROM requests
                  WHERE coalesce(last_delivered_ns, finish_ns, last_token_ns, $hi) >= $lo
                    AND coalesce(arrival_ns, queued_ns, scheduled_ns) <= $hi
        UNION ALL SELECT min(time_ns) FROM gpu WHERE time_ns BETWEEN $lo AND $hi)"""


@dataclass(frozen=True, slots=True)
class Wish:
    capture: str | None = None      # kernels of this one only, and what ran beside it
    since_ns: int | None = None     # the last so many ns


@dataclass(frozen=True, slots=True)
class Captured:
    row: dict[str, Any]             # of `captures`
    shift_ns: int                   # what is added to its times
    own_clock: bool                 # it could not be placed by its wall time

    @property
    def start_ns(self) -> int:
        return int(self.row["start_ns"]) + self.shift_ns

    @property
    def end_ns(self) -> int:
        return int(self.row["end_ns"]) + self.shift_ns


@dataclass(frozen=True, slots=True)
class Span:
    origin_ns: int                  # where the timeline begins, in the run's clock
    first_ns: int                   # what ended before is left out …
    last_ns: int                    # … and what began after
    wall_origin_ns: int | None      # Unix time of the origin; None where nothing tells it
    captures: dict[tuple[str, str], Captured]     # capture and process

    def at(self, time_ns: int) -> int:
        return time_ns - self.origin_ns

    def bounds(self) -> dict[str, int]:
        return {"lo": self.first_ns, "hi": self.last_ns}


def find_span(run: RunReader, wish: Wish) -> Span:
    """Raises CannotAnswer where there is nothing with a time, AskedWrongly where there is no such capture."""
    whole = run.one(OF_RUN)
    anchor = next((Anchor(**row) for row in run.rows(ANCHOR)), None)
    rows = _chosen(run, wish.capture)
    placed = _placed([row for row in rows if row["start_ns"] is not None and row["end_ns"] is not None], whole, anchor)
    firsts = [t for t in (whole["first_ns"], *(c.start_ns for c in placed)) if t is not None]
    lasts = [t for t in (whole["last_ns"], *(c.end_ns for c in placed)) if t is not None]
    if wish.capture is not None:
        firsts, lasts = [c.start_ns for c in placed], [c.end_ns for c in placed]
    if not firsts or not lasts:
        raise CannotAnswer(f"run {run.folder.name} has no step, request or kernel with a time: there is no timeline to show")  # noqa: E501
    last_ns = max(lasts)
    first_ns = min(firsts) if wish.since_ns is None else max(min(firsts), last_ns - wish.since_ns)
    shown = [c for c in placed if c.end_ns >= first_ns]
    seen = run.one(FIRST, {"lo": first_ns, "hi": last_ns})["first_ns"]
    origin = min([t for t in (seen, *(max(c.start_ns, first_ns) for c in shown)) if t is not None], default=first_ns)
    return Span(origin, first_ns, last_ns, _wall(origin, anchor, placed),
                {(c.row["capture"], c.row["process"]): c for c in shown})  # fmt: skip


def _chosen(run: RunReader, wanted: str | None) -> list[dict[str, Any]]:
    rows = run.rows(CAPTURES)
    if wanted is None:
        return rows
    ids = sorted({row["capture"] for row in rows})
    hits = [i for i in ids if i == wanted] or [i for i in ids if i.startswith(wanted)]
    if len(hits) != 1:
        raise AskedWrongly(f"{len(hits) or 'no'} captures of {run.folder.name} are called {wanted!r}; there are {', '.join(ids) or 'none'}")  # noqa: E501
    return [row for row in rows if row["capture"] == hits[0]]


def _placed(rows: list[dict[str, Any]], whole: dict[str, Any], anchor: Anchor | None) -> list[Captured]:
    first, last = whole["first_ns"], whole["last_ns"]
    if first is None:       # files only: the earliest of them begins the timeline
        walls = [row["wall_start_ns"] for row in rows if row["wall_start_ns"] is not None]
        first, last, anchor = 0, 0, Anchor(0, min(walls)) if walls else None
    found = []
    for row in rows:
        at = anchor.mono(row["wall_start_ns"]) if anchor and row["wall_start_ns"] is not None else None
        if row["live"]:
            found.append(Captured(row, 0, False))
        elif at is not None and first - NEAR_NS <= at <= last + NEAR_NS:
            found.append(Captured(row, at - row["start_ns"], False))
        else:
            alone = whole["first_ns"] is None and len(rows) == 1      # its clock is the only one there is
            found.append(Captured(row, first - row["start_ns"], not alone))
    return found


def _wall(origin_ns: int, anchor: Anchor | None, placed: list[Captured]) -> int | None:
    """By the engine's anchor, else by a capture that stands at its wall time."""
    if anchor is not None:
        return anchor.wall(origin_ns)
    for c in placed:
        if c.row["wall_start_ns"] is not None and not c.own_clock:
            return int(c.row["wall_start_ns"]) - (c.start_ns - origin_ns)
    return None
