"""Two arms that serve → pairs of blocks: warm both, then the same piece to each in turn, never at once.

    bench = Bench(present, other, pieces, wish, start=0)
    bench.warm()
    found = bench.pair(number=3, order="ba")         Timed, or the Trouble that an arm turned out to have

    |  a  |…|  b  |…|  b  |…|  a  |…        … a pause: an engine that has just served spins for about a second
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pellucid.core.errors import PellucidError
from pellucid.core.units import size
from pellucid.tune.effect.pairs import Order, Pair
from pellucid.tune.effect.requests import Timing
from pellucid.verbs.loop.trial.arms.booted import Arm
from pellucid.verbs.loop.trial.arms.trouble import Role, Trouble
from pellucid.verbs.loop.trial.block import Served, serve
from pellucid.verbs.loop.trial.noise import Timed
from pellucid.verbs.loop.trial.pieces import Pieces
from pellucid.verbs.loop.trial.wish import Wish

FAILED_IN_A_ROW = 2         # blocks of an arm with errors: one may be the machine's
GROWN_RATIO, GROWN_BYTES, GROWN_BLOCKS = 0.10, 100 * 2**20, 6      # chosen: caches fill in the first blocks


@dataclass(slots=True)
class Bench:
    present: Arm
    other: Arm
    pieces: Pieces
    wish: Wish
    start: int
    failed: dict[Role, int] = field(default_factory=dict)                # blocks with errors, in a row
    resident_bytes: dict[Role, list[int]] = field(default_factory=dict)  # after each block
    blocks_count: int = 0
    requests: dict[Role, list[Timing]] = field(default_factory=dict)     # of pairs
    client_bound: list[str] = field(default_factory=list)                # why, of each block in which the client was

    def warm(self) -> Trouble | None:
        """The first piece, with tokens of its own, to both: first requests pay for what is set up late."""
        for draw, arm in enumerate((self.present, self.other), 2):
            found = self.block(arm, 0, draw)
            if isinstance(found, Trouble):
                return found
        return None

    def pair(self, number: int, order: Order) -> Timed | Trouble:
        arms = (self.present, self.other) if order == "ab" else (self.other, self.present)
        played: dict[str, Served] = {}
        for draw, arm in enumerate(arms):
            found = self.block(arm, number, draw)
            if isinstance(found, Trouble):
                return found
            played[arm.role] = found
            self.requests.setdefault(arm.role, []).extend(found.requests)
        a, b = played[self.present.role], played[self.other.role]
        return Timed(Pair(a.block, b.block, order, self.start), a.started_ns, b.started_ns)

    def block(self, arm: Arm, number: int, draw: int) -> Served | Trouble:
        """One piece to one arm, or the trouble that it turned out to have."""
        time.sleep(self.wish.pause_s)
        try:
            arm.use()
        except PellucidError:
            if trouble := arm.trouble():
                return trouble
            raise
        played = serve(arm.target, self.pieces.piece(number, draw), self.wish.block_limit_s, self.wish.slo)
        block = played.block
        self.failed[arm.role] = self.failed.get(arm.role, 0) + 1 if block.errors_count else 0
        if grown := arm.rss_bytes():
            self.resident_bytes.setdefault(arm.role, []).append(grown)
        self.blocks_count += 1
        self.client_bound += [played.client_bound] if played.client_bound else []
        if not block.errors_count:
            return played
        return arm.trouble() or self._fault(arm, played) or played

    def _fault(self, arm: Arm, played: Served) -> Trouble | None:
        block = played.block
        if played.overdue_count and block.errors_count == block.requests_count:
            detail = f"none of {block.requests_count} requests was answered within {self.wish.block_limit_s:.0f} s"
            return Trouble(arm.role, "hangs", detail)
        if self.failed[arm.role] < FAILED_IN_A_ROW:
            return None
        detail = f"{block.errors_count} of {block.requests_count} requests failed, the first: {played.error}"
        return Trouble(arm.role, "answers with errors", detail)

    def notes(self) -> list[str]:
        """Memory that grows from block to block."""
        said = {role: growth(seen) for role, seen in self.resident_bytes.items()}
        return [f"{role} leaks: {words}" for role, words in said.items() if words]


def growth(seen_bytes: list[int]) -> str:
    """In words, where each block of the last third held more than each of the middle third; "" else."""
    third = len(seen_bytes) // 3
    if len(seen_bytes) < GROWN_BLOCKS:
        return ""
    middle, last = seen_bytes[third: 2 * third], seen_bytes[-third:]
    grown = min(last) - max(middle)
    if grown <= 0 or seen_bytes[-1] - middle[0] < max(GROWN_BYTES, GROWN_RATIO * middle[0]):
        return ""
    return f"its processes held {size(middle[0])} and, {len(seen_bytes) - third} blocks later, {size(seen_bytes[-1])}"

