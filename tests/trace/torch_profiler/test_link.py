"""Which call and which operator launched a kernel, on drawings and against the slow way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pellucid.trace.link import Hints, innermost, linked
from pellucid.trace.timeline import KERNEL, NOT_TOLD, OP, RUNTIME, HostEvents, Kernels, host_of, kernels_of

Span = tuple[int, int]      # start and duration


def host(ops: list[Span], calls: list[tuple[int, int]] = [], threads: list[int] | None = None) -> HostEvents:  # noqa: B006
    """Operators, then runtime calls as (start, correlation)."""
    count = len(ops) + len(calls)
    return host_of({
        "name": np.arange(count), "kind": np.array([OP] * len(ops) + [RUNTIME] * len(calls)),
        "start_ns": np.array([s for s, _ in ops] + [s for s, _ in calls], np.int64),
        "duration_ns": np.array([d for _, d in ops] + [1] * len(calls), np.int64),
        "thread": np.array(threads or [0] * count), "correlation": np.array([-1] * len(ops) + [c for _, c in calls]),
    })  # fmt: skip


def kernels(*rows: tuple[int, int]) -> Kernels:
    """(start, correlation)"""
    start, correlation = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    count = len(rows)
    return kernels_of({"name": np.arange(count), "kind": np.full(count, KERNEL), "start_ns": start,
                       "duration_ns": np.ones(count, np.int64), "correlation": correlation})  # fmt: skip


def test_the_innermost_open_operator_is_taken() -> None:
    """linear [0, 100) around addmm [10, 50) around the call at 20; the call at 60 is in linear only; 200 in none."""
    k, h = linked(kernels((300, 1), (310, 2), (320, 3)), host([(0, 100), (10, 40)], [(20, 1), (60, 2), (200, 3)]))
    assert [h.name[o] if o >= 0 else None for o in k.op] == [1, 0, None]
    assert [int(h.correlation[c]) for c in k.launch] == [1, 2, 3]


def test_an_operator_of_another_thread_is_not_taken() -> None:
    k, h = linked(kernels((300, 1)), host([(0, 100)], [(20, 1)], threads=[0, 1]))
    assert (k.op.tolist(), h.kind[k.launch].tolist()) == ([NOT_TOLD], [RUNTIME])


def test_kernels_of_a_graph_share_the_launch_and_no_correlation_has_none() -> None:
    k, _ = linked(kernels((30, 7), (10, 7), (20, -1), (40, 8)), host([], [(5, 7)]))
    assert (k.start_ns.tolist(), k.launch.tolist()) == ([10, 20, 30, 40], [0, -1, 0, -1])


def test_correlations_of_two_processes_do_not_meet() -> None:
    hints = Hints(kernel_process=np.array([2, 1, 3]), host_process=np.array([1, 2]))
    k, h = linked(kernels((50, 7), (60, 7), (70, 7)), host([], [(5, 7), (6, 7)]), hints)
    assert k.launch.tolist() == [1, 0, -1]
    assert len(h) == 2


def test_without_a_call_the_number_of_the_operator_helps_unless_it_is_the_correlation() -> None:
    """Profilers of 2023 write the correlation in its place."""
    hints = Hints(kernel_external=np.array([4, 9]), host_external=np.array([4, 9]))
    k, _ = linked(kernels((50, 7), (60, 9)), host([(0, 10), (20, 10)]), hints)
    assert k.op.tolist() == [0, -1]


def nested(draw: st.DrawFn, start: int, end: int, depth: int) -> list[Span]:
    found: list[Span] = []
    at = start
    while depth and at < end and draw(st.booleans()):
        low = draw(st.integers(at, end - 1))
        high = draw(st.integers(low, end))
        found += [(low, high - low), *nested(draw, low, high, depth - 1)]
        at = high
    return found


trees = st.composite(lambda draw: nested(draw, 0, 60, 4))()


@given(trees, st.lists(st.integers(-1, 61), max_size=20))
def test_it_is_what_looking_at_every_operator_gives(spans: list[Span], times: list[int]) -> None:
    """Of those open at a time, the one that started last; of those that started together, the shortest."""
    _, events = linked(kernels((0, -1)), host(spans))
    got = innermost(events, np.zeros(len(times), np.int32), np.array(times, np.int64))
    for at, row in zip(times, got, strict=True):
        around = [(s, d) for s, d in spans if s <= at < s + max(d, 1)]
        best = max(around, key=lambda span: (span[0], -span[1]), default=None)
        mine = (int(events.start_ns[row]), int(events.duration_ns[row])) if row >= 0 else None
        assert mine == best
