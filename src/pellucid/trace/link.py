"""Kernels and host events → the same, sorted, and each kernel with its runtime call and the operator around that.

    host      |-------------- op 0: linear ---------------|
                 |--------- op 1: addmm ----------|
                       |- runtime call, correlation 7 -|
    device                                          |== kernel, correlation 7 ==|    launch: the call, op: op 1

A kernel of a device graph has the correlation of the graph's launch; all of a graph share one call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pellucid.trace.timeline import NOT_TOLD, OP, RUNTIME, Columns, HostEvents, Ids, Kernels, Longs, taken

Whole = TypeVar("Whole", np.int64, np.int32)
SPAN_ANYWAY = 1 << 12       # chosen: up to so many values are counted rather than sorted, however few there are
MANY = 1 << 16          # chosen: below, sorting is fast enough
PLACES_BITS = 16        # chosen: half a MiB stays near the core; of a thousand values eight lose their place
SPREAD = np.uint64(0x9E3779B97F4A7C15)      # the golden ratio's bits: neighbours get places far apart
DENSE = 4                   # chosen: a table of so many places for each key is faster than a search
PROCESS_SHIFT = 44      # correlations are 32-bit in CUPTI and roctracer; the rest of a key is the process


@dataclass(frozen=True, slots=True, eq=False)
class Hints:
    """What a format tells beside correlations; None where it does not."""

    kernel_process: Longs | None = None         # where correlations are numbered in each process
    host_process: Longs | None = None
    kernel_external: Longs | None = None        # the profiler's number of the operator; -1 none
    host_external: Longs | None = None


def linked(kernels: Kernels, host: HostEvents, hints: Hints = Hints()) -> tuple[Kernels, HostEvents]:
    """Sorts both by start and fills `launch` and `op`."""
    by_start, by_host_start = _order(kernels.start_ns, kernels.stream), _order(host.start_ns, -host.duration_ns)
    kernels, host = _ordered(kernels, by_start), _ordered(host, by_host_start)
    hints = Hints(*(column if column is None or rows is None else column[rows] for column, rows in (
        (hints.kernel_process, by_start), (hints.host_process, by_host_start),
        (hints.kernel_external, by_start), (hints.host_external, by_host_start))))  # fmt: skip
    launch = launches(kernels, host, hints)
    op = np.full(len(kernels), NOT_TOLD, np.int64)
    called = np.flatnonzero(launch >= 0)
    op[called] = innermost(host, host.thread[launch[called]], host.start_ns[launch[called]])
    if hints.kernel_external is not None and hints.host_external is not None:
        op = np.where(op >= 0, op, _by_external(kernels, host, hints.kernel_external, hints.host_external))
    return replace(kernels, launch=launch, op=op), host


def _order(first: Longs, second: Longs) -> Longs | None:
    """Rows by two columns, those that are equal in both as they stand; None where all stand so already."""
    if (first[1:] >= first[:-1]).all() and ((first[1:] > first[:-1]) | (second[1:] >= second[:-1])).all():
        return None
    order = np.argsort(first)       # not stable, and much faster: few are equal, and those are put in order again
    ordered = first[order]
    equal = np.zeros(len(first) + 1, bool)
    equal[1:-1] = ordered[1:] == ordered[:-1]
    at = np.flatnonzero(equal[1:] | equal[:-1])
    rows = np.sort(order[at])
    order[at] = rows[np.lexsort((second[rows], first[rows]))]
    return order


def _ordered(columns: Columns, rows: Longs | None) -> Columns:
    return columns if rows is None else taken(columns, rows)


def distinct(values: NDArray[Whole]) -> tuple[NDArray[Whole], Longs]:
    """Values, each once and sorted, and which of them each is. What np.unique does, without loading numpy.ma: 27 ms."""
    if not len(values):
        return values, np.zeros(0, np.int64)
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span <= max(SPAN_ANYWAY, len(values)):
        at = values - values.dtype.type(least)
        seen = np.zeros(span, bool)
        seen[at] = True
        return np.flatnonzero(seen).astype(values.dtype) + values.dtype.type(least), (np.cumsum(seen) - 1)[at]
    placed = _distinct_placed(values) if len(values) >= MANY else None
    return placed or _distinct_sorted(values)


def _distinct_placed(values: NDArray[Whole]) -> tuple[NDArray[Whole], Longs] | None:
    """Each value is written to a place that follows from its bits. Sorted are what stands in the places, and the rows
    whose place another value has: a million extents, a thousand of them different, in a quarter of the time.

    None where so many differ that sorting is faster.
    """
    bits = values.astype(np.uint64)
    bits *= SPREAD
    bits >>= np.uint64(64 - PLACES_BITS)
    place = bits.view(np.int64)
    table, used = np.zeros(1 << PLACES_BITS, values.dtype), np.zeros(1 << PLACES_BITS, bool)
    table[place], used[place] = values, True
    lost = np.flatnonzero(table[place] != values)
    if len(lost) > len(values) // 8:
        return None
    places = np.flatnonzero(used)
    rest, which_rest = _distinct_sorted(values[lost])
    found = np.concatenate([table[places], rest])
    order = np.argsort(found)
    rank = np.empty(len(found), np.int64)
    rank[order] = np.arange(len(found))
    rank_of_place = np.zeros(1 << PLACES_BITS, np.int64)
    rank_of_place[places] = rank[:len(places)]
    which = rank_of_place[place]
    which[lost] = rank[len(places) + which_rest]
    return found[order], which


def _distinct_sorted(values: NDArray[Whole]) -> tuple[NDArray[Whole], Longs]:
    order = np.argsort(values)
    ordered = values[order]
    first = np.ones(len(values), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    which = np.empty(len(values), np.int64)
    which[order] = np.cumsum(first) - 1
    return ordered[first], which


def launches(kernels: Kernels, host: HostEvents, hints: Hints) -> Longs:
    """Row of the runtime call of each kernel, -1 where there is none. The first of calls with one correlation."""
    runtime = np.flatnonzero((host.kind == RUNTIME) & (host.correlation >= 0))
    keys, wanted = host.correlation[runtime], kernels.correlation
    if hints.kernel_process is not None and hints.host_process is not None and not _one_process(hints):
        _, code = distinct(np.concatenate([hints.host_process[runtime], hints.kernel_process]))
        keys = keys + (code[: len(runtime)] << PROCESS_SHIFT)
        wanted = np.where(wanted < 0, wanted, wanted + (code[len(runtime):] << PROCESS_SHIFT))
    return _looked_up(wanted, keys, runtime)


def _one_process(hints: Hints) -> bool:
    """As of most traces: their correlations can be compared as they are."""
    each = [p for p in (hints.kernel_process, hints.host_process) if p is not None and len(p)]
    return len({int(p.min()) for p in each} | {int(p.max()) for p in each}) == 1


def _looked_up(wanted: Longs, keys: Longs, values: Longs) -> Longs:
    """The value of the first equal key for each that is wanted; -1 where none is equal, and for what is negative."""
    found = np.full(len(wanted), NOT_TOLD, np.int64)
    if not len(keys):
        return found
    least, most = int(keys.min()), int(keys.max())
    if most - least < DENSE * len(keys):
        table = np.full(most - least + 1, NOT_TOLD, np.int64)
        table[keys[::-1] - least] = values[::-1]        # where a key stands twice, what is written last stays
        hit = np.flatnonzero((wanted >= max(least, 0)) & (wanted <= most))
        found[hit] = table[wanted[hit] - least]
        return found
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    hit = np.flatnonzero((keys[order[at]] == wanted) & (wanted >= 0))
    found[hit] = values[order[at[hit]]]
    return found


def innermost(host: HostEvents, threads: Ids, times_ns: Longs) -> Longs:
    """Row of the innermost operator that is open at each time on each thread; -1 where none is."""
    found = np.full(len(times_ns), NOT_TOLD, np.int64)
    ops = np.flatnonzero(host.kind == OP)
    ops = ops[np.argsort(host.thread[ops], kind="stable")]
    asked = np.argsort(threads, kind="stable")
    for thread in distinct(threads)[0]:
        mine = ops[slice(*np.searchsorted(host.thread[ops], [thread, thread + 1]))]
        mine_asked = asked[slice(*np.searchsorted(threads[asked], [thread, thread + 1]))]
        if len(mine):
            at = _innermost(host.start_ns[mine], host.duration_ns[mine], times_ns[mine_asked])
            found[mine_asked] = np.where(at >= 0, mine[at], NOT_TOLD)
    return found


def _innermost(start_ns: Longs, duration_ns: Longs, times_ns: Longs) -> Longs:
    """Of operators of one thread, sorted by start. Those at one depth do not overlap, so the last to start is it."""
    end_ns = start_ns + np.maximum(duration_ns, 1)
    ended = np.sort(end_ns)
    depth = np.arange(1, len(start_ns) + 1) - np.searchsorted(ended, start_ns, "right")
    wanted = np.searchsorted(start_ns, times_ns, "right") - np.searchsorted(ended, times_ns, "right")
    found = np.full(len(times_ns), NOT_TOLD, np.int64)
    for level in distinct(wanted[wanted > 0])[0]:
        rows, asked = np.flatnonzero(depth == level), np.flatnonzero(wanted == level)
        at = np.searchsorted(start_ns[rows], times_ns[asked], "right") - 1
        at = np.where(at >= 0, rows[at] if len(rows) else NOT_TOLD, NOT_TOLD)
        found[asked] = np.where((at >= 0) & (end_ns[at] > times_ns[asked]), at, NOT_TOLD)
    return found


def _by_external(kernels: Kernels, host: HostEvents, kernel_external: Longs, host_external: Longs) -> Longs:
    """For kernels without a call. Old profilers write the correlation in place of the operator's number: not used."""
    ops = np.flatnonzero((host.kind == OP) & (host_external >= 0))
    told = (kernels.launch < 0) & (kernel_external != kernels.correlation)
    return _looked_up(np.where(told, kernel_external, NOT_TOLD), host_external[ops], ops)
