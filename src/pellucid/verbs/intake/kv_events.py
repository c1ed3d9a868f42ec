"""Follow engines' KV events into a run: which blocks are cached, where, and for how long. No probe is needed.

    follow_kv_events(endpoints(["tcp://host:5557"], ["tcp://host:5558"]), RecordInto(home), stop) → Followed(folder, …)

A recorder of its own. One that has more to record drives a `Follower` beside the rest, with the same endpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from pellucid.collect.kv_events.follow import Endpoint, Follower
from pellucid.core.clock import Clock, anchor_now, monotonic_ns
from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.settings import number
from pellucid.store.write import Limits, RunWriter
from pellucid.verbs.record import RecordInto, Stop, new_run
from pellucid.verbs.site import site_key

LAST_WAIT_S = 1.0     # for a replay that is on its way when the recording is to end; chosen


@dataclass(frozen=True, slots=True)
class Followed:
    folder: Path
    messages_count: int
    stored_count: int
    removed_count: int
    lost_count: int           # messages that could not be had again


def endpoints(events: Sequence[str], replays: Sequence[str] = ()) -> list[Endpoint]:
    """One replay address for each publisher, in the same order, or none at all."""
    if replays and len(replays) != len(events):
        raise AskedWrongly(f"{len(events)} --kv-events and {len(replays)} --kv-replay: give one replay address for each publisher, or none")  # noqa: E501
    return [Endpoint(e, r) for e, r in zip_longest(events, replays)]


def follow_kv_events(
    where: Sequence[Endpoint], into: RecordInto, stop: Stop, began: Callable[[Path], None] = lambda _: None,
    clock: Clock = monotonic_ns,
) -> Followed:  # fmt: skip
    """Blocks until `stop()`. `began` is told the run's folder before the first row."""
    folder = new_run(into, " ".join(e.events for e in where))
    try:
        key = site_key(into.home)
    except OSError as error:
        raise Failed(f"{into.home}: {error.strerror}. Set PELLUCID_HOME to a writable folder") from error
    writer = RunWriter(folder, Limits(number("flush_s"), number("seal_s"), int(number("seal_rows"))), clock)
    follower = Follower(where, key, writer.append, anchor_now())
    began(folder)
    poll_s = number("poll_s")
    end_s = None
    while end_s is None or (follower.is_waiting() and time.monotonic() < end_s):
        follower.cycle(clock())
        writer.tick()
        time.sleep(poll_s)
        if end_s is None and stop():
            end_s = time.monotonic() + LAST_WAIT_S
    follower.end()
    writer.close()
    counts = [s.stream.lives.counts for s in follower.sources]
    return Followed(
        folder, sum(c.batches for c in counts), sum(c.stored for c in counts), sum(c.removed for c in counts),
        sum(s.stream.losses.lost for s in follower.sources),
    )  # fmt: skip
