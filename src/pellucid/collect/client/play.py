"""Asks → replies, open loop: each goes out at its time, whatever the engine does.

    target = Target("http://127.0.0.1:8000", "m", found.dialect)
    played = play(target, [Ask(0.0, [5, 6, 7], 32), Ask(0.2, [5, 9], 16)], Bounds(request_s=60))
    played.replies[0].lag_ns, played.replies[0].fault, played.ended_early

A prompt that has to be made is made a second ahead, so that it makes nobody late. An ask behind another one is due when
that one has ended, however it did: what the engine delays is its own delay, and no lag of the client.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from pellucid.catalog.servers.dialects import PLAIN, Dialect
from pellucid.collect.client.ask import Ask, Reply
from pellucid.collect.client.body import encoded
from pellucid.collect.client.events import Stream
from pellucid.collect.client.exchange import Message, Place, Until, Wire, exchange, locate
from pellucid.collect.client.pulse import Pulse
from pellucid.core.errors import CannotAnswer

AHEAD_NS = 1_000_000_000     # a body is made so long before it is sent
LEAD_NS = 200_000_000        # between the call and the start: the first bodies
GONE_COUNT = 20              # connections in a row that were not taken: the server is gone


class Encode(Protocol):
    def __call__(self, model: str, ask: Ask, dialect: Dialect) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    model: str
    dialect: Dialect = PLAIN
    headers: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Bounds:
    request_s: float = math.inf        # of one request; then it is a timeout
    block_s: float = math.inf          # of all; what runs then is a timeout, what is due later is not sent
    until_s: float = math.inf          # what is due later is not sent, what runs then may finish
    give_up: bool = False              # where the server takes no connection any more


@dataclass(frozen=True, slots=True)
class Counts:
    """Where a play stands."""

    second: int                        # since it began
    asked_count: int
    sent_count: int
    running_count: int
    faults_count: int


@dataclass(frozen=True, slots=True)
class Played:
    replies: tuple[Reply, ...]         # in the order of the asks; those that were not sent are left out
    unsent_count: int
    ended_early: str                   # why asks were not sent; "" where all were, or `until_s` came
    began_ns: int                      # the moment from which asks count
    ended_ns: int                      # of the last reply
    stalls_ns: tuple[int, ...]         # of the event loop
    busy_ratio: float                  # of a core, by the event loop

    @property
    def duration_ns(self) -> int:
        """From the beginning to the last reply."""
        return self.ended_ns - self.began_ns


def play(
    target: Target, asks: Sequence[Ask], bounds: Bounds, tell: Callable[[Counts], None] | None = None,
    encode: Encode = encoded,
) -> Played:  # fmt: skip
    """Returns when all asks have ended. `tell` is called each second.

    Raises AskedWrongly on what is no address, CannotAnswer where its name is not known.
    """
    return asyncio.run(play_async(target, asks, bounds, tell, encode))


async def play_async(
    target: Target, asks: Sequence[Ask], bounds: Bounds, tell: Callable[[Counts], None] | None = None,
    encode: Encode = encoded,
) -> Played:  # fmt: skip
    """As `play`. When it is cancelled, its connections are closed."""
    try:
        place = await locate(target.url, target.headers)
    except OSError as error:
        raise CannotAnswer(f"{target.url}: {error.strerror or error}. Try: --url http://host:port") from error
    return await _Play(target, place, asks, bounds, encode, time.monotonic_ns() + LEAD_NS).run(tell)


class _Play:
    def __init__(
        self, target: Target, place: Place, asks: Sequence[Ask], bounds: Bounds, encode: Encode, began_ns: int
    ) -> None:
        self.target, self.place, self.asks, self.bounds, self.encode = target, place, asks, bounds, encode
        self.began_ns = began_ns
        self.replies: dict[int, Reply] = {}
        self.sent_count = self.faults_count = self.refused_in_a_row = 0
        self.ended_early, self.gone = "", False
        self.asleep: set[asyncio.Task[None]] = set()
        self.followers: dict[int, list[int]] = defaultdict(list)
        for index, ask in enumerate(asks):
            if ask.after is not None:
                self.followers[ask.after].append(index)

    async def run(self, tell: Callable[[Counts], None] | None) -> Played:
        pulse = Pulse()
        watching = [asyncio.create_task(pulse.beat())]
        if tell is not None:
            watching.append(asyncio.create_task(self._tell(tell)))
        try:
            async with asyncio.TaskGroup() as self.group:
                self.group.create_task(self._feed())
            busy = pulse.busy_ratio()
        finally:
            for task in watching:
                task.cancel()
        replies = tuple(self.replies[i] for i in sorted(self.replies))
        ended_ns = max((r.end_ns for r in replies), default=self.began_ns)
        return Played(replies, len(self.asks) - len(replies), self.ended_early, self.began_ns, ended_ns,
                      tuple(pulse.stalls_ns), busy)  # fmt: skip

    async def _feed(self) -> None:
        """Starts what has a time of its own, in its order."""
        firsts = sorted((i for i, a in enumerate(self.asks) if a.after is None), key=lambda i: self.asks[i].at_s)
        for index in firsts:
            due_ns = self.began_ns + round(max(self.asks[index].at_s, self.asks[index].earliest_s) * 1e9)
            if self._too_late(due_ns):
                break
            await self._sleep_until(due_ns - AHEAD_NS)
            self._start(index, due_ns)

    def _too_late(self, due_ns: int) -> bool:
        due_s = (due_ns - self.began_ns) / 1e9
        if due_s > self.bounds.block_s:
            self.ended_early = self.ended_early or f"the {self.bounds.block_s:g} s it may take were over"
        return due_s > min(self.bounds.block_s, self.bounds.until_s)

    def _start(self, index: int, due_ns: int) -> None:
        if not self.gone and not self._too_late(due_ns):
            self.group.create_task(self._one(index, due_ns))

    async def _one(self, index: int, due_ns: int) -> None:
        ask = self.asks[index]
        await self._sleep_until(due_ns - AHEAD_NS)
        message = Message(ask.path, self.encode(self.target.model, ask, self.target.dialect), _headers(ask), ask.stream)
        await self._sleep_until(due_ns)
        sent_ns = time.monotonic_ns()
        self.sent_count += 1
        left_s = self.bounds.block_s - (sent_ns - self.began_ns) / 1e9
        stream = Stream()
        until = Until(max(0.0, min(self.bounds.request_s, left_s)), ask.hang_up_s, ask.hang_up_tokens)
        wire = await exchange(self.place, message, until, stream)
        end_ns = time.monotonic_ns()
        self.replies[index] = _reply(ask, (sent_ns - due_ns, sent_ns, end_ns), wire, stream)
        self._note(wire)
        for follower in self.followers.pop(index, ()):
            later = self.asks[follower]
            self._start(follower, max(end_ns + round(later.at_s * 1e9), self.began_ns + round(later.earliest_s * 1e9)))

    def _note(self, wire: Wire) -> None:
        self.faults_count += bool(wire.fault)
        self.refused_in_a_row = self.refused_in_a_row + 1 if wire.fault == "refused" else 0
        if self.bounds.give_up and self.refused_in_a_row >= GONE_COUNT and not self.gone:
            self.gone = True
            self.ended_early = self.ended_early or f"{GONE_COUNT} connections in a row were not taken: {wire.error}"
            for task in self.asleep:
                task.cancel()

    async def _sleep_until(self, moment_ns: int) -> None:
        left_ns = moment_ns - time.monotonic_ns()
        task = asyncio.current_task()
        if left_ns > 0 and task is not None:
            self.asleep.add(task)
            await asyncio.sleep(left_ns / 1e9)
            self.asleep.discard(task)

    async def _tell(self, tell: Callable[[Counts], None]) -> None:
        for second in count(1):
            await asyncio.sleep(1)
            running_count = self.sent_count - len(self.replies)
            tell(Counts(second, len(self.asks), self.sent_count, running_count, self.faults_count))


def _headers(ask: Ask) -> dict[str, str]:
    return dict(ask.headers) | ({"X-Request-Id": ask.request_id} if ask.request_id is not None else {})


def _reply(ask: Ask, times_ns: tuple[int, int, int], wire: Wire, seen: Stream) -> Reply:
    """`times_ns`: lag, sending, end."""
    lag_ns, sent_ns, end_ns = times_ns
    return Reply(
        ask, lag_ns, sent_ns, end_ns, wire.status, seen.response_id, tuple(seen.arrivals), seen.prompt_tokens,
        seen.output_tokens, seen.finish_reason, wire.hung_up, wire.fault, wire.error,
    )  # fmt: skip
