"""Why a device did nothing: each gap between kernels, by what the host did meanwhile.

    device   |== a ==|          gap            |== b ==|
    host                  | sync |   | launch b |           launched after the gap began, the host waited: sync
    host     | launch b |                                   launched before: queued, the device was late by itself
    host                             | launch b |           launched after the gap began, without waiting: launch

A gap with copies in it counts as copy for so long. Where the launch is not visible the cause is unknown.

That there was nothing to do no trace tells: a host that schedules in another process, or waits for a lock, looks like
one without requests. The engine's own record does: spans in which no request was there are taken out of a gap first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.trace.place.steps import launch_times
from pellucid.trace.timeline import KERNEL, MEMCPY, MEMSET, NOT_TOLD, RUNTIME, Longs, Timeline

CAUSES = ("launch", "sync", "queued", "unknown")
LAUNCH, SYNC, QUEUED, UNKNOWN = range(len(CAUSES))
WAITING = "synchronize"         # in the names of runtime calls that return when the device is through


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gaps of one device, in order."""

    start_ns: Longs
    end_ns: Longs
    kernel: Longs               # row of the kernel that ends it
    cause: Longs                # in CAUSES
    copied_ns: Longs            # of it with a copy or a fill
    nothing_ns: Longs           # of the rest, without a request: 0 where nobody knows of any


def busy_edges(start_ns: Longs, end_ns: Longs) -> tuple[Longs, Longs]:
    """Union of intervals sorted by start → starts and ends of what is covered."""
    if not len(start_ns):
        return start_ns, end_ns
    reach = np.maximum.accumulate(end_ns)
    first = np.flatnonzero(np.concatenate([[True], start_ns[1:] > reach[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(start_ns) - 1]])
    return start_ns[first], reach[last]


def covered_ns(starts: Longs, ends: Longs, from_ns: Longs, to_ns: Longs) -> Longs:
    """How much of each span [from, to) a union of intervals covers."""
    if not len(starts):
        return np.zeros(len(from_ns), np.int64)
    done = np.concatenate([[0], np.cumsum(ends - starts)])

    def until(moments: Longs) -> Longs:
        at = np.searchsorted(starts, moments, "right")
        inside = np.where(at > 0, np.minimum(moments, ends[at - 1]) - starts[at - 1], 0)
        return np.where(at > 0, done[at - 1] + inside, 0)

    return until(to_ns) - until(from_ns)


def find_gaps(timeline: Timeline, device: int, quiet: Sequence[tuple[int, int]] = ()) -> Gaps:
    """`quiet`: from when to when no request was there, in order, in the clock of the trace."""
    kernels = timeline.kernels
    rows = np.flatnonzero((kernels.kind == KERNEL) & (kernels.device == device))
    start, end = kernels.start_ns[rows], kernels.start_ns[rows] + kernels.duration_ns[rows]
    starts, ends = busy_edges(start, end)
    gap_start, gap_end = ends[:-1], starts[1:]
    ender = rows[np.searchsorted(start, gap_end, "left")]
    cause = _causes(timeline, gap_start, gap_end, ender)
    copies = np.flatnonzero(np.isin(kernels.kind, (MEMCPY, MEMSET)) & (kernels.device == device))
    c_start, c_end = busy_edges(kernels.start_ns[copies], kernels.start_ns[copies] + kernels.duration_ns[copies])
    copied_ns = covered_ns(c_start, c_end, gap_start, gap_end)
    q_start, q_end = np.array(quiet, np.int64).reshape(len(quiet), 2).T
    nothing_ns = np.minimum(covered_ns(q_start, q_end, gap_start, gap_end), gap_end - gap_start - copied_ns)
    return Gaps(gap_start, gap_end, ender, cause, copied_ns, nothing_ns)


def _causes(timeline: Timeline, gap_start: Longs, gap_end: Longs, ender: Longs) -> Longs:
    launched = launch_times(timeline)[ender]
    cause = np.full(len(ender), UNKNOWN, np.int64)
    seen = launched != NOT_TOLD
    late = seen & (launched >= gap_start)
    cause[seen & ~late] = QUEUED
    cause[late] = LAUNCH
    cause[late & (_waited_ns(timeline, gap_start, np.minimum(launched, gap_end)) > 0)] = SYNC
    return cause


def _waited_ns(timeline: Timeline, from_ns: Longs, to_ns: Longs) -> Longs:
    """For how long the host waited for the device between two moments."""
    host = timeline.host
    waits = [i for i in np.unique(host.name[host.kind == RUNTIME]) if WAITING in timeline.names[int(i)].lower()]
    rows = np.flatnonzero((host.kind == RUNTIME) & np.isin(host.name, waits))
    starts, ends = busy_edges(host.start_ns[rows], host.start_ns[rows] + host.duration_ns[rows])
    return covered_ns(starts, ends, from_ns, np.maximum(from_ns, to_ns))
