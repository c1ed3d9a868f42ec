"""What a capture brought and what it cost, in two lines.

    10 steps, 14,455 kernels of 1.1 s in capture c3f0a1b2c4d5
    it held the engine up for 2.4 ms to start and 212 ms to stop; the longest token gap was 301 ms, before it 74 ms
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.core.units import counted, duration
from pellucid.verbs.captures.profile import Taken


def lines(taken: Taken) -> Iterator[str]:
    yield (f"{counted(taken.steps_count, 'steps')}, {counted(taken.kernels_count, 'kernels')} of "
           f"{duration(taken.kernels_ns)} in capture {taken.capture}")  # fmt: skip
    start, stop = duration(taken.start_cost_ns), duration(taken.stop_cost_ns)
    cost = f"it held the engine up for {start} to start and {stop} to stop"
    if taken.longest_gap_ns is None:
        yield f"{cost}; nobody decoded meanwhile"
    else:
        before = f", before it {duration(taken.usual_gap_ns)}" if taken.usual_gap_ns is not None else ""
        yield f"{cost}; the longest token gap was {duration(taken.longest_gap_ns)}{before}"
    yield from (f"trace kept as {path}" for path in taken.traces)
