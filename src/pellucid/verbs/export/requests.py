"""Requests → tracks on which none overlaps another, with what each of them waited for and was in.

    requests of engine_core-24911   |                    cmpl-9f2c                    |
                                    |frontend|queue| prefill |        decode          |delivery|
                                                                    |preempted|

A moment that was not seen joins the parts on both its sides. A request that had not finished lasts to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pellucid.store.read import RunReader
from pellucid.verbs.export.event import COLOURS, Event, seen, us
from pellucid.verbs.export.pages import pages
from pellucid.verbs.export.span import Span
from pellucid.verbs.export.steps import Shown, group
from pellucid.verbs.export.tracks import Tracks

TOLD = ("request_id", "task", "finish_reason", "aborted_by", "prompt_tokens", "cached_tokens", "output_tokens",
        "recomputed_tokens", "drafted_tokens", "accepted_tokens", "preemptions_count", "first_step",
        "last_step")  # fmt: skip
# What begins at each moment, in their order.
PARTS = {"arrival_ns": "frontend", "queued_ns": "queue", "scheduled_ns": "prefill", "first_token_ns": "decode",
         "last_token_ns": "delivery"}  # fmt: skip
REQUESTS = f"""
    WITH e AS (SELECT process, request, list(time_ns ORDER BY time_ns) FILTER (event = 'preempted') AS preempted,
                      list(time_ns ORDER BY time_ns) FILTER (event = 'rescheduled') AS rescheduled
               FROM request_events WHERE event IN ('preempted', 'rescheduled') GROUP BY ALL)
    SELECT r.process, r.request, arrival_ns, queued_ns, scheduled_ns, first_token_ns, last_token_ns, finish_ns,
           last_delivered_ns, preempted, rescheduled, {', '.join(TOLD)}
    FROM requests r LEFT JOIN e ON r.process = e.process AND r.request = e.request
    WHERE coalesce(last_delivered_ns, finish_ns, last_token_ns, $hi) >= $lo
      AND coalesce(arrival_ns, queued_ns, scheduled_ns) <= $hi
    ORDER BY coalesce(arrival_ns, queued_ns, scheduled_ns)"""


def requests(run: RunReader, span: Span, tracks: Tracks, shown: Shown) -> Iterator[Event]:
    for number, row in enumerate(pages(run, REQUESTS, span.bounds()), start=1):
        moments, end_ns = _moments(row, span)
        start_ns = moments[0][1]
        pid = tracks.group(f"requests of {row['process']}")
        tid = tracks.lane(pid, "requests", start_ns, end_ns)
        name = row["request_id"] or f"request {row['request']}"
        told = seen(row, *TOLD) | ({} if row["finish_ns"] is not None else {"unfinished": True})
        yield Event("X", name, pid, tid, us(span.at(start_ns)), us(end_ns - start_ns), "request", args=told)
        for part, a, b in _parts(moments, end_ns):
            yield Event("X", part, pid, tid, us(span.at(a)), us(b - a), "request", COLOURS.get(part, "grey"))
            for began, until in _preempted(row, a, b):
                yield Event("X", "preempted", pid, tid, us(span.at(began)), us(until - began), "request",
                            COLOURS["preempted"])  # fmt: skip
        step = None if row["scheduled_ns"] is None else shown.find(row["process"], row["scheduled_ns"])
        if step is not None:        # the first step it was in began just then
            at_us = us(span.at(row["scheduled_ns"]))
            to = tracks.group(group(row["process"]))
            yield Event("s", "scheduled", pid, tid, at_us, cat="scheduled", id=2 * number)
            yield Event("f", "scheduled", to, step, at_us, cat="scheduled", id=2 * number, bp="e")


def _moments(row: dict[str, Any], span: Span) -> tuple[list[tuple[str, int]], int]:
    """What begins when, in order, and the end. Two clocks may have a moment before the one it follows: it is moved."""
    ends = [row[c] for c in ("last_token_ns", "finish_ns", "last_delivered_ns") if row[c] is not None]
    finished = row["finish_ns"] is not None or row["last_delivered_ns"] is not None
    names = [c for c in PARTS if row[c] is not None and (finished or c != "last_token_ns")]
    moments, latest = [], row[names[0]]
    for name in names:
        latest = max(latest, row[name])
        moments.append((name, latest))
    return moments, max([latest, *ends] if finished else [latest, *ends, span.last_ns])


def _parts(moments: list[tuple[str, int]], end_ns: int) -> Iterator[tuple[str, int, int]]:
    """(name, start, end); empty ones are left out."""
    columns = list(PARTS)
    for (column, start), (after, until) in pairwise([*moments, ("", end_ns)]):
        last = columns.index(after) if after else columns.index(column) + 1
        name = " + ".join(PARTS[c] for c in columns[columns.index(column):last])
        if until > start:
            yield name, start, until


def _preempted(row: dict[str, Any], start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """Preemptions that began within a part of the request, until it was scheduled again or the part was over."""
    again = row["rescheduled"] or []
    for at in row["preempted"] or []:
        if start_ns <= at < end_ns:
            yield at, min(next((t for t in again if t >= at), end_ns), end_ns)
