"""Timeline → the kernels that look up embeddings, the first of each step, and the shapes they were given.

    aten::embedding   [[151936, 2048], [8000]]  types ["c10::BFloat16", "long int"]    →  Lookup(151936, 2048, (8000,))

A kernel is one by its own name, also where a device graph launched it, or by an operator around its launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np

from pellucid.trace.place.steps import launch_times
from pellucid.trace.timeline import KERNEL, OP, Longs, Timeline

WHOLE = ("int", "long", "long int", "int32", "int64")     # types of indices, as profilers spell them
OTHERS = ("rotary", "rope", "position", "timestep", "backward")    # embeddings that begin no step
Dims = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    vocabulary: int             # rows of the weight
    hidden: int                 # its columns
    shape: tuple[int, ...]      # of the numbers of its rows


@dataclass(frozen=True, slots=True, eq=False)
class Lookups:
    kernels: Longs                          # rows of kernels, in order
    told: tuple[Lookup | None, ...]         # what was looked up by each; None where no shapes were recorded


def find_lookups(timeline: Timeline) -> Lookups:
    kernels, host = timeline.kernels, timeline.host
    named = np.array([is_lookup(name) for name in timeline.names], bool)
    ops = np.flatnonzero((host.kind == OP) & named[host.name]) if len(host) else np.zeros(0, np.int64)
    around = _around(timeline, ops)
    rows = np.flatnonzero((kernels.kind == KERNEL) & (named[kernels.name] | (around >= 0)))
    first = np.ones(len(rows), bool)          # of the kernels of one operator
    first[1:] = (around[rows][1:] < 0) | (around[rows][1:] != around[rows][:-1])
    rows = rows[first]
    return Lookups(rows, tuple(_told(timeline, int(around[r])) for r in rows))


def is_lookup(name: str) -> bool:
    text = name.lower()
    return "embedding" in text and not any(other in text for other in OTHERS)


def _around(timeline: Timeline, ops: Longs) -> Longs:
    """For each kernel the row of the operator among `ops` in which it was launched; -1. Those do not overlap, or lie in
    one another: the last to start counts."""
    launched = launch_times(timeline)
    found = np.full(len(launched), -1, np.int64)
    if not len(ops):
        return found
    start, end = timeline.host.start_ns[ops], timeline.host.start_ns[ops] + timeline.host.duration_ns[ops]
    at = np.searchsorted(start, launched, "right") - 1
    inside = (at >= 0) & (launched >= 0) & (launched <= end[at])
    found[inside] = ops[at[inside]]
    return found


def _told(timeline: Timeline, op: int) -> Lookup | None:
    if op < 0 or timeline.host.shapes[op] < 0 or timeline.host.types[op] < 0:
        return None
    dims = dims_of(timeline.texts[timeline.host.shapes[op]])
    types = types_of(timeline.texts[timeline.host.types[op]])
    tables = [d for d in dims if len(d) == 2]
    indices = [d for d, t in zip(dims, types, strict=False) if t in WHOLE and 1 <= len(d) <= 2]
    return Lookup(*max(tables), indices[0]) if tables and indices else None


@cache
def dims_of(text: str) -> Dims:
    """Shapes of the inputs; () for one that is no tensor, and where the text is none of shapes."""
    try:
        found = msgspec.json.decode(text.encode(), type=list[object])
    except msgspec.DecodeError:
        return ()
    return tuple(
        tuple(n for n in d if isinstance(n, int)) if isinstance(d, list) else () for d in found
    )


@cache
def types_of(text: str) -> tuple[str, ...]:
    try:
        return tuple(msgspec.json.decode(text.encode(), type=list[str]))
    except msgspec.DecodeError:
        return ()
