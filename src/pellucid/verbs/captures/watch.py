"""Captures by themselves: when a condition holds, when a finding is new, or every so often, within a budget.

    watch(home, None, Wish(5), Trigger(every_ns=300 * S_NS), stop, took)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.errors import CannotAnswer
from pellucid.core.units import S_NS
from pellucid.verbs.captures.ask import Wish, check
from pellucid.verbs.captures.profile import Taken, profile
from pellucid.verbs.captures.when import Budget, Condition
from pellucid.verbs.runs import is_recording, run_folder
from pellucid.verbs.watch.matrix import matrix
from pellucid.verbs.why import why

LOOK_S = 5.0                        # between two looks
WINDOW_NS = 30 * S_NS               # what a condition is about
HORIZON_NS = 3600 * S_NS            # how far back its baseline may come from
PAST_NS = 60 * S_NS                 # what `finding` looks at


@dataclass(slots=True)
class Trigger:
    """Why the next capture is taken. One of the three is set."""

    every_ns: int | None = None
    condition: Condition | None = None
    finding: bool = False
    _last_ns: int | None = None
    _known: set[str] = field(default_factory=set)

    def due(self, folder: Path, now_ns: int) -> str:
        """Why a capture is due, in words; "" for not."""
        if self.every_ns is not None:
            late = self._last_ns is None or now_ns - self._last_ns >= self.every_ns
            return "its time has come" if late else ""
        if self.condition is not None:
            return str(self.condition) if self.condition.met(matrix(folder, WINDOW_NS, HORIZON_NS)["rows"]) else ""
        found = {f["id"] for f in why(folder, PAST_NS)["findings"]}
        fresh = sorted(found - self._known)
        self._known = found
        return f"{fresh[0]} is new" if fresh else ""

    def taken(self, now_ns: int) -> None:
        self._last_ns = now_ns


def watch(
    home: Path, run: str | None, wish: Wish, trigger: Trigger, stop: Callable[[], bool],
    took: Callable[[str, Taken], None], most: int | None = None, clock: Clock = monotonic_ns,
) -> int:  # fmt: skip
    """Returns how many were taken, when `stop()` or after `most`. An engine that is idle for once is asked again later.
    Raises CannotAnswer where no engine is being recorded."""
    folder, budget, count = run_folder(home, run), Budget(clock()), 0
    check(wish)
    while not stop() and (most is None or count < most):
        if not is_recording(folder):
            raise CannotAnswer(f"run {folder.name} is not being recorded now. Try: pellucid run -- …, and profile then")
        if budget.allows(clock()) and (reason := trigger.due(folder, clock())):
            try:
                taken = profile(home, str(folder), wish, stop)
            except CannotAnswer:
                if stop():
                    raise
            else:
                budget.pay(taken.start_cost_ns + taken.stop_cost_ns)
                count += 1
                took(reason, taken)
            trigger.taken(clock())
        _sleep(LOOK_S, stop)
    return count


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stop() and time.monotonic() < end:
        time.sleep(0.1)
