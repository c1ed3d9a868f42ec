"""Clocks. Rows carry CLOCK_MONOTONIC ns; each process has one anchor that places them on wall time.

`Anchor(mono_ns, wall_ns)` was read at one moment. A wall clock that is stepped later does not move rows:
only the anchor of the process that wrote them counts. What somebody else says in wall time is turned into ours where it
is received, by both clocks as they are at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]  # → ns


@dataclass(frozen=True, slots=True)
class Anchor:
    mono_ns: int
    wall_ns: int

    def wall(self, mono_ns: int) -> int:
        """CLOCK_MONOTONIC ns → UNIX ns."""
        return self.wall_ns + (mono_ns - self.mono_ns)

    def mono(self, wall_ns: int) -> int:
        """UNIX ns → CLOCK_MONOTONIC ns."""
        return self.mono_ns + (wall_ns - self.wall_ns)


def monotonic_ns() -> int:
    return time.monotonic_ns()


def anchor_now() -> Anchor:
    return Anchor(time.monotonic_ns(), time.time_ns())
