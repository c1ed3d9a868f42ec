"""The batch of each step of a trace: tokens, and lengths of its requests as far as they are known.

    Batch(tokens=64, requests=64, decodes=64, longest_query=1, longest_context=1005)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.catalog.kernels.op_shapes import entry_of, op_shapes
from pellucid.trace.place.lookups import Lookups
from pellucid.trace.place.placed import Placed, StepSeen
from pellucid.trace.timeline import OP, Timeline
from pellucid.trace.work.operators import operator


@dataclass(frozen=True, slots=True)
class Batch:
    """None is not known. `contexts`, where a running engine told them: positions each request sees, with new ones."""

    tokens: int | None = None
    prefills: int | None = None
    decodes: int | None = None
    decode_tokens: int | None = None        # more than one for each that decodes where drafts are checked
    longest_query: int | None = None
    longest_context: int | None = None
    queries: tuple[int, ...] = ()           # tokens of each request, in the order of `contexts`
    contexts: tuple[int, ...] = ()


def batches(timeline: Timeline, placed: Placed, lookups: Lookups) -> list[Batch]:
    of_kernel = dict(zip(lookups.kernels.tolist(), lookups.told, strict=True))
    lengths = _lengths(timeline, placed.steps)
    out = []
    for step, rows, longest in zip(placed.steps, placed.rows, lengths, strict=True):
        shape = next((told.shape for r in rows.tolist() if (told := of_kernel.get(r))), None)
        tokens = _sum(step.prefill_tokens, step.decode_tokens)
        if tokens is None and shape:
            tokens = int(np.prod(shape))
        query = shape[1] if shape and len(shape) == 2 else longest[0]
        context = longest[1] if query is None or not shape or len(shape) == 1 else max(longest[1] or 0, query)
        out.append(Batch(tokens, step.prefill_requests, step.decode_requests, query, context))
    return out


def _lengths(timeline: Timeline, steps: Sequence[StepSeen]) -> list[tuple[int | None, int | None]]:
    """Longest query and context of each step, from an operator that is called once a step."""
    host = timeline.host
    found: list[tuple[int | None, int | None]] = [(None, None)] * len(steps)
    entries = {int(i): e for i in np.unique(host.name[host.kind == OP]).tolist()
               if (e := entry_of(op_shapes().lengths, timeline.names[i]))} if len(host) else {}  # fmt: skip
    rows = np.flatnonzero(np.isin(host.name, list(entries)) & (host.kind == OP)) if entries else np.zeros(0, np.int64)
    starts = [s.step.host_start_ns for s in steps]
    if not len(rows) or any(s is None for s in starts):
        return found
    # It is called before the range of its step begins, or in it: the next step to begin within a range's length is it.
    edges = np.array([s for s in starts if s is not None])
    ends = np.array([s.step.host_end_ns or 0 for s in steps])
    for row in rows.tolist():
        moment = int(host.start_ns[row])
        at = int(np.searchsorted(edges, moment, "right")) - 1
        if at < 0 or moment > ends[at]:
            at += 1
        op, entry = operator(timeline, row), entries[int(host.name[row])]
        if op is not None and at < len(steps) and found[at] == (None, None):
            found[at] = (op.scalar(entry.longest_query), op.scalar(entry.longest_context))
    return found


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b
