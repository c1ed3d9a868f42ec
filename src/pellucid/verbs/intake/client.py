"""A client's or gateway's own span of a request, beside what was recorded of it: the network's part, as far as two
clocks allow.

    client   sent ─────────────────────────────────────────── first token ───── received
    engine          arrival ──────────────── delivered first ───────── delivered last
             network                                          the way back

By both clocks as they are, nothing may arrive before it was sent, nor be there before it was delivered. Where it does,
the clocks differ and nobody knows by how much, so the network's part stays unknown. The time there and back is known
all the same: each clock is only compared with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.collect.client.spans import ClientFile, ClientSpan, parent_of, read
from pellucid.core.clock import Anchor
from pellucid.core.errors import CannotAnswer
from pellucid.core.units import MS_NS, counted, duration
from pellucid.store.read import RunReader

Row = dict[str, Any]
SET_NS = 100 * MS_NS    # anchors that differ by more: the wall clock was set while the engine ran


@dataclass(frozen=True, slots=True)
class Joined:
    """Moments are CLOCK_MONOTONIC ns of the engine's host, if both wall clocks show the same."""

    matched_by: str               # request id, caller's span, or trace
    sent_ns: int
    first_token_ns: int | None
    received_ns: int | None
    outside_ns: int | None        # there and back: the client's whole time less the engine's; no clocks are compared
    skew_ns: int | None           # the clocks differ by this at least; None where they may agree
    says: str


def join(run: RunReader, row: Row, path: Path) -> tuple[Joined | None, str]:
    """What the file says of a request, or why nothing of it can be used. Raises AskedWrongly on a file that does not
    read, CannotAnswer where no wall time was recorded."""
    found, how = find(read(path), row)
    if found is None:
        return None, f"{path}: {how}"
    anchor, set_ns = _anchor(run)
    if set_ns > SET_NS:
        return None, f"{path}: the wall clock of the engine's host was set by {duration(set_ns)} or more while it ran"
    joined = place(found, how, row, anchor)
    if (joined.outside_ns or 0) < 0:
        return None, f"{path}: the span that has its {how} is {duration(-(joined.outside_ns or 0))} shorter than what the engine did in it: they are not of one request"  # noqa: E501
    return joined, ""


def find(file: ClientFile, row: Row) -> tuple[ClientSpan | None, str]:
    """The span of a request and what it was found by; or None and why there is none."""
    trace_id, span_id = parent_of(row["traceparent"])
    ids = {row["request_id"], row["internal_id"]} - {None}
    called = [s for s in file.spans if trace_id and (s.trace_id, s.span_id) == (trace_id, span_id)]
    for how, hits in (
        ("caller's span", called),
        ("request id", [s for s in file.spans if s.request_id in ids]),
        ("trace", [s for s in file.spans if trace_id and s.trace_id == trace_id]),
    ):
        if len(hits) == 1:
            return hits[0], how
        if hits:
            return None, f"{len(hits)} spans have its {how}, and none is that of the call itself"
    own = f", beside {counted(file.engine_spans_count, 'spans')} of an engine" if file.engine_spans_count else ""
    return None, f"none of its {counted(len(file.spans), 'spans')} is of this request{own}: that takes its id or trace"


def place(span: ClientSpan, how: str, row: Row, anchor: Anchor) -> Joined:
    sent_ns = anchor.mono(span.sent_ns)
    first_ns, received_ns = (None if t is None else anchor.mono(t) for t in (span.first_token_ns, span.received_ns))
    off_ns, off = max((
        (_less(sent_ns, row["arrival_ns"]) or 0, "it arrived before it was sent"),
        (_less(row["first_delivered_ns"], first_ns) or 0, "its first token was there before it was delivered"),
        (_less(row["last_delivered_ns"], received_ns) or 0, "its answer was there before it was delivered whole"),
    ))  # fmt: skip
    outside_ns = _less(_less(received_ns, sent_ns), _less(row["last_delivered_ns"], row["arrival_ns"]))
    skewed = off_ns > 0
    says = (f"by the clocks of both hosts {off}: they differ by {duration(off_ns)} or more" if skewed else
            "the network's part compares the clocks of two hosts, and is as good as they agree")  # fmt: skip
    if outside_ns is not None:
        says += f"; there and back it spent {duration(outside_ns)} outside of the engine, whatever the clocks show"
    return Joined(how, sent_ns, first_ns, received_ns, outside_ns, off_ns if skewed else None, says)


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _anchor(run: RunReader) -> tuple[Anchor, int]:
    """A frontend's if there is one, and by how much the processes' anchors differ."""
    anchors = [Anchor(r["mono_ns"], r["wall_ns"]) for r in run.rows("""
        SELECT anchor_mono_ns AS mono_ns, anchor_wall_ns AS wall_ns FROM processes WHERE anchor_mono_ns IS NOT NULL
        ORDER BY coalesce(role LIKE '%frontend%', false) DESC, process""")]  # fmt: skip
    if not anchors:
        raise CannotAnswer(f"run {run.folder.name} has no wall time of any process: a client's times cannot be placed")
    offsets = [a.wall(0) for a in anchors]
    return anchors[0], max(offsets) - min(offsets)
