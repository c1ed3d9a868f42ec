"""How well the client itself ran: how late its event loop came back, and how much of a core it took.

    pulse = Pulse()
    beating = asyncio.create_task(pulse.beat())
    …
    pulse.stalls_ns      [210_000, 1_100_000, 190_000, …]      how much later than asked for, each BEAT_S
    pulse.busy_ratio()   0.14

An answer that arrives while the loop is away is stamped when it is back: a stall is an error of every time in it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

BEAT_S = 0.01      # chosen: the shortest gap between tokens that engines of today show is about as long


@dataclass(slots=True)
class Pulse:
    stalls_ns: list[int] = field(default_factory=list)
    _wall_ns: int = field(default_factory=time.monotonic_ns)
    _thread_ns: int = field(default_factory=time.thread_time_ns)

    async def beat(self) -> None:
        """Until cancelled."""
        while True:
            due_ns = time.monotonic_ns() + int(BEAT_S * 1e9)
            await asyncio.sleep(BEAT_S)
            self.stalls_ns.append(time.monotonic_ns() - due_ns)

    def busy_ratio(self) -> float:
        """CPU time of the loop's thread over the time since the beginning."""
        return (time.thread_time_ns() - self._thread_ns) / max(1, time.monotonic_ns() - self._wall_ns)
