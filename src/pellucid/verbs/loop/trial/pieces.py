"""A workload cut into pieces of a block's length; both arms of a pair get the same one, in times and lengths.

    pieces = Pieces.cut(workload, Wish(speed=2.0, seed=0), room, dialect, block_s=10.0)
    pieces.piece(0)       what arrives in the first ten seconds, as asks whose times count from there
    pieces.piece(0, 1)    the same for the second arm: other tokens, shared as in the first
    pieces.left_out       {"longer than the engine takes": 12}

Windows without a request are no piece. After the last piece comes the first again. No tokens come twice: two arms may
be one engine, and what it has cached of an earlier block must be of no use to it in a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pellucid.catalog.servers.dialects import Dialect
from pellucid.collect.client.ask import Ask
from pellucid.core.units import S_NS
from pellucid.verbs.loop.asks import Plan, Room, Wish, planned
from pellucid.workload.file import Workload

DRAWS = 4      # of a piece: one for each arm, and one for each to be warmed with


@dataclass(slots=True)
class Pieces:
    workload: Workload
    wish: Wish
    room: Room
    dialect: Dialect
    block_s: float
    windows: Sequence[int]               # block_s each, those with a request
    first: Plan
    plans: dict[int, Plan] = field(default_factory=dict)      # of the pass that is under way: draw of tokens → plan

    @classmethod
    def cut(cls, workload: Workload, wish: Wish, room: Room, dialect: Dialect, block_s: float) -> Pieces:
        """Raises as `planned` does: AskedWrongly, CannotAnswer where no request can be sent."""
        plan = planned(workload, wish, room, dialect, "try")
        times = plan.requests.requests.column("arrival_ns").to_pylist()
        windows = sorted({int(t / S_NS // block_s) for t in times if t is not None})
        return cls(workload, wish, room, dialect, block_s, windows, plan, {0: plan})

    @property
    def left_out(self) -> dict[str, int]:
        """Reason → requests of the workload that are in no piece."""
        return self.first.left_out

    @property
    def notes(self) -> tuple[str, ...]:
        return self.first.notes

    def piece(self, number: int, draw: int = 0) -> list[Ask]:
        """Counts on through passes. `draw`: of the tokens, below DRAWS."""
        turn, place = divmod(number, len(self.windows))
        begin_s = self.windows[place] * self.block_s
        return self._plan(DRAWS * turn + draw).between(begin_s, begin_s + self.block_s)

    def _plan(self, draw: int) -> Plan:
        if draw not in self.plans:
            again = replace(self.wish, seed=self.wish.seed + draw)
            here = {d: plan for d, plan in self.plans.items() if d // DRAWS == draw // DRAWS}
            self.plans = {**here, draw: planned(self.workload, again, self.room, self.dialect, f"try-{draw}")}
        return self.plans[draw]
