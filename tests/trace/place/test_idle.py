"""Gaps on a device and their causes, on a timeline written out: times in µs."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.trace.place.idle import CAUSES, busy_edges, covered_ns, find_gaps
from pellucid.trace.timeline import KERNEL, MEMCPY, RUNTIME, About, Timeline, host_of, kernels_of

NAMES = ("a", "b", "copy", "cudaLaunchKernel", "cudaStreamSynchronize")
Event = tuple[int, int, int]


def timeline(kernels: list[tuple[int, int, int, int]], calls: list[Event]) -> Timeline:
    """Kernels: name, start, duration, row of the call or -1. Calls: name, start, duration."""
    ours, host = np.array(kernels, np.int64), np.array(calls, np.int64).reshape(-1, 3)
    kind = np.where(ours[:, 0] == 2, MEMCPY, KERNEL)
    return Timeline(
        About("torch_profiler", "x", 0),
        kernels_of({"name": ours[:, 0], "kind": kind, "start_ns": ours[:, 1], "duration_ns": ours[:, 2],
                    "launch": ours[:, 3], "device": np.zeros(len(ours), np.int64)}),
        host_of({"name": host[:, 0], "kind": np.full(len(host), RUNTIME), "start_ns": host[:, 1],
                 "duration_ns": host[:, 2]}),
        NAMES, (), (), (),
    )  # fmt: skip


@pytest.mark.parametrize(("calls", "cause"), [
    ([(3, 0, 1), (3, 40, 2)], "launch"),                       # launched after the gap began
    ([(3, 0, 1), (4, 5, 30), (3, 40, 2)], "sync"),             # and the host waited for the device before
    ([(3, 0, 1), (3, 20, 2)], "launch"),                       # just when the device went idle
    ([(3, 0, 1), (3, 19, 2)], "queued"),                       # in time
    ([(3, 0, 1), (3, 40, 2), (4, 43, 9)], "launch"),           # the host waited later
])  # fmt: skip
def test_the_cause_of_a_gap_is_what_the_host_did(calls: list[Event], cause: str) -> None:
    launch = next(n for n in range(len(calls) - 1, -1, -1) if calls[n][0] == 3)
    gaps = find_gaps(timeline([(0, 10, 10, 0), (1, 50, 5, launch)], calls), 0)
    assert [(int(a), int(b), CAUSES[int(c)]) for a, b, c in zip(gaps.start_ns, gaps.end_ns, gaps.cause, strict=True)] \
        == [(20, 50, cause)]  # fmt: skip


def test_without_a_launch_the_cause_is_unknown_and_copies_are_counted() -> None:
    gaps = find_gaps(timeline([(0, 10, 10, -1), (2, 25, 10, -1), (1, 50, 5, -1)], []), 0)
    assert [CAUSES[int(c)] for c in gaps.cause] == ["unknown"]
    assert gaps.copied_ns.tolist() == [10]


@pytest.mark.parametrize(("quiet", "nothing_ns"), [
    ([], 0), ([(25, 45)], 20), ([(0, 30)], 10), ([(30, 99)], 20), ([(0, 20), (50, 60)], 0), ([(21, 23), (40, 41)], 3),
])  # fmt: skip
def test_of_a_gap_there_was_nothing_to_do_for_as_long_as_no_request_was_there(
    quiet: list[tuple[int, int]], nothing_ns: int
) -> None:
    gaps = find_gaps(timeline([(0, 10, 10, 0), (1, 50, 5, 1)], [(3, 0, 1), (3, 46, 2)]), 0, quiet)
    assert (gaps.nothing_ns.tolist(), [CAUSES[int(c)] for c in gaps.cause]) == ([nothing_ns], ["launch"])


def test_nothing_to_do_and_copies_are_not_counted_twice() -> None:
    gaps = find_gaps(timeline([(0, 10, 10, -1), (2, 25, 10, -1), (1, 50, 5, -1)], []), 0, [(20, 50)])
    assert (gaps.copied_ns.tolist(), gaps.nothing_ns.tolist()) == ([10], [20])


def test_kernels_side_by_side_leave_no_gap() -> None:
    assert len(find_gaps(timeline([(0, 10, 30, -1), (1, 20, 5, -1), (1, 40, 5, -1)], []), 0).start_ns) == 0


def test_a_union_and_what_it_covers() -> None:
    starts, ends = busy_edges(np.array([0, 5, 20]), np.array([10, 8, 30]))
    assert (starts.tolist(), ends.tolist()) == ([0, 20], [10, 30])
    assert covered_ns(starts, ends, np.array([0, 5, 12, 25]), np.array([30, 15, 15, 50])).tolist() == [20, 5, 0, 5]
