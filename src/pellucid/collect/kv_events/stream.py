"""The messages of one publisher → lives of blocks, with every loss counted. No socket and no clock of its own.

    live(frames, now)      from the publisher          [topic, sequence, payload]
    replayed(frames, now)  from its replay socket      ["", topic, sequence, payload], then sequence −1
    wanted(now)            the number to replay from, when there is a hole and nobody was asked yet

A hole is first asked for again. What the replay does not bring is lost: the lives open at that moment are closed as
unknown. Batches published before the first message we saw are no loss, only earlier than the recording. A damaged
message counts as one that did not come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pellucid.collect.kv_events.lives import Lives
from pellucid.collect.kv_events.order import Order
from pellucid.collect.kv_events.wire import END, Batch, Unreadable, decode, sequence
from pellucid.core.units import MS_NS, S_NS

REORDER_NS = 200 * MS_NS     # a late message is waited for so long where there is no replay; chosen: one connection
                             # does not reorder, so this is for bridges in between
REPLAY_NS = 5 * S_NS         # chosen: the publisher looks at its replay socket ten times a second
MOST_WAITING = 100_000       # batches held behind a hole: as many as the publisher's own queue holds


@dataclass(slots=True)
class Losses:
    lost: int = 0            # messages that could not be had again
    gaps: int = 0            # in so many places
    before: int = 0          # published before the first message we have
    damaged: int = 0
    replayed: int = 0        # had again
    restarts: int = 0        # the publisher counted from 0 again: the engine was restarted


@dataclass(slots=True)
class Stream:
    lives: Lives
    may_replay: bool
    order: Order = field(default_factory=Order)
    losses: Losses = field(default_factory=Losses)
    _asked: range | None = None      # the hole that a replay in flight is to fill
    _since_ns: int | None = None     # when the hole was noticed, or the replay asked for
    _ends_due: int = 0               # replays asked for whose end has not come

    def live(self, frames: list[bytes]) -> None:
        read = self._read(frames)
        if read is None:
            return
        number, batch = read
        if self.order.is_restart(number, batch):
            self._restart(batch)
        if self.order.next is None:
            self.order.next = 0 if self.may_replay else number
            self.losses.before += 0 if self.may_replay else number
        self._deliver(self.order.take(number, batch))

    def replayed(self, frames: list[bytes]) -> None:
        if len(frames) >= 2 and frames[-2] == END and not frames[-1]:
            self._ends_due = max(0, self._ends_due - 1)
            if self._asked is not None and not self._ends_due:
                self._lose_before(self._asked.stop)
                self._asked = self._since_ns = None
            return
        if self._asked is None:
            return                   # more of an answer than there was a hole for
        read = self._read(frames)
        if read is None:
            return
        if self.order.is_restart(*read):
            self._restart(read[1])
            self.order.next, self._asked = 0, range(0)     # the rest of this answer comes before the next question
        before = self.order.repeated_count
        self._deliver(self.order.take(*read))
        self.losses.replayed += self.order.repeated_count == before

    def wanted(self, now_ns: int) -> int | None:
        """Call often: also notices when the waiting is over."""
        hole = self.order.hole()
        if not hole:
            self._since_ns = self._asked = None
            return None
        if self._since_ns is None:
            self._since_ns = now_ns
        waited_ns = now_ns - self._since_ns
        if self.may_replay and self._asked is None:
            self._asked, self._since_ns, self._ends_due = hole, now_ns, self._ends_due + 1
            return max(0, hole.start - 1)      # one we have, to see that it is still the same publisher
        patience_ns = REPLAY_NS if self.may_replay else REORDER_NS
        if waited_ns >= patience_ns or len(self.order.waiting) > MOST_WAITING:
            self._lose_before(hole.stop)
            self._since_ns = self._asked = None
        return None

    def end(self) -> None:
        """What is still missing is lost."""
        while self.order.hole():
            self._lose_before(self.order.hole().stop)
        self.lives.end()

    def _read(self, frames: list[bytes]) -> tuple[int, Batch] | None:
        try:
            if len(frames) < 3:
                raise Unreadable(f"{len(frames)} frames")
            return sequence(frames[-2]), decode(frames[-1])
        except Unreadable:
            self.losses.damaged += 1
            return None

    def _deliver(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.lives.take(batch)

    def _lose_before(self, stop: int) -> None:
        while (hole := self.order.hole()) and hole.stop <= stop:
            if self.lives.counts.batches:
                self.losses.lost += len(hole)
                self.losses.gaps += 1
                self.lives.lose()
            else:
                self.losses.before += len(hole)
            self._deliver(self.order.give_up())

    def _restart(self, first: Batch) -> None:
        """`first` is of the new numbering. What waits and was published before it is of the old one."""
        waiting = self.order.waiting
        self.order.waiting = {n: b for n, b in waiting.items() if b.wall_ns < first.wall_ns}
        while self.order.hole():
            self._lose_before(self.order.hole().stop)
        self.lives.lose()            # the old engine's cache is gone; nobody saw when
        self.losses.restarts += 1
        fresh = {n: b for n, b in waiting.items() if b.wall_ns >= first.wall_ns}
        self.order = Order(waiting=fresh, newest_ns=max((b.wall_ns for b in fresh.values()), default=-1))
        self._asked = self._since_ns = None
