"""Engines' KV event streams → rows of `kv_residency`, `sources` and `facts`. Driven by whoever records.

    follower = Follower([Endpoint("tcp://host:5557", "tcp://host:5558")], key, writer.append, anchor_now())
    follower.cycle(now_ns)      # often; never waits
    follower.end()

One endpoint for each data-parallel rank: an engine listens on one port after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.collect.facts import blind, fact_row
from pellucid.collect.kv_events.lives import Lives
from pellucid.collect.kv_events.sockets import Sockets, connect
from pellucid.collect.kv_events.stream import Stream
from pellucid.core.clock import Anchor
from pellucid.core.errors import AskedWrongly
from pellucid.core.units import S_NS
from pellucid.store.schema import SOURCES
from pellucid.store.write import Row

Append = Callable[[str, Row], None]
ROLE = "kv_events"
DESCRIBE_NS = 1 * S_NS
CONFIG = '{"enable_kv_cache_events": true, "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}'
HOW = f"start the engine with --kv-events-config '{CONFIG}' and let us reach both ports"


@dataclass(frozen=True, slots=True)
class Endpoint:
    events: str
    replay: str | None = None


@dataclass(slots=True)
class _Source:
    """One publisher."""

    name: str
    endpoint: Endpoint
    stream: Stream
    sockets: Sockets
    said: dict[str, dict[str, Any]] = field(default_factory=dict)   # facts as last written


class Follower:
    """Raises AskedWrongly when an address is none."""

    def __init__(
        self, endpoints: Sequence[Endpoint], key: bytes, append: Append, anchor: Anchor, deployment: str = "default",
        engine: str | None = None,
    ) -> None:  # fmt: skip
        self.append, self.anchor = append, anchor
        self.sources: list[_Source] = []
        self._described_ns: int | None = None
        for n, endpoint in enumerate(endpoints):
            name = f"{ROLE}-{n}"
            provenance = {"deployment": deployment, "engine": engine, "process": name}
            lives = Lives(lambda row: append("kv_residency", row), key, anchor, provenance)
            stream = Stream(lives, endpoint.replay is not None)
            try:
                sockets = connect(endpoint.events, endpoint.replay)
            except AskedWrongly:
                for source in self.sources:
                    source.sockets.close()
                raise
            self.sources.append(_Source(name, endpoint, stream, sockets))

    def cycle(self, now_ns: int) -> None:
        for source in self.sources:
            for frames in source.sockets.received():
                source.stream.live(frames)
            for frames in source.sockets.answers():
                source.stream.replayed(frames)
            first = source.stream.wanted(now_ns)
            if first is not None:
                source.sockets.ask(first)
        if self._described_ns is None or now_ns - self._described_ns >= DESCRIBE_NS:
            self._described_ns = now_ns
            self._describe()

    def is_waiting(self) -> bool:
        """Whether some messages are still to come late or by replay."""
        return any(source.stream.order.hole() for source in self.sources)

    def end(self) -> None:
        for source in self.sources:
            source.stream.end()
            source.sockets.close()
            if source.stream.lives.counts.batches:
                self.append("sources", source_row(source.stream, self.anchor))
        self._describe()

    def _describe(self) -> None:
        for source in self.sources:
            who = {"process": source.name, "role": ROLE, "engine_version": None}
            for fact, seen in facts(source.stream, source.endpoint.events).items():
                if source.said.get(fact) != seen:
                    source.said[fact] = seen
                    self.append("facts", fact_row(who, fact, seen))


def source_row(stream: Stream, anchor: Anchor) -> Row:
    known = {
        **stream.lives.provenance, "role": ROLE, "anchor_mono_ns": anchor.mono_ns, "anchor_wall_ns": anchor.wall_ns,
        "lost_count": stream.losses.lost, "torn_count": stream.losses.damaged,
    }  # fmt: skip
    return tuple(known.get(name) for name in SOURCES.names())


def facts(stream: Stream, where: str) -> dict[str, dict[str, Any]]:
    """What can be seen of the blocks, and what cannot. `where`: what was listened to."""
    counts, losses = stream.lives.counts, stream.losses
    if not counts.batches:
        return {"kv.events": blind(f"nothing that could be read came from {where}", HOW)}
    faults, how = [], []
    if losses.gaps or losses.restarts:
        faults.append(f"{losses.lost} messages were lost in {losses.gaps} gaps and the engine started again "
                      f"{losses.restarts} times: of {counts.closed_unknown} blocks the end is not known")  # fmt: skip
        how.append("record with --kv-replay, and give the engine a larger buffer_steps")
    if counts.unknown_kinds:
        kinds = ", ".join(f"{kind} ({times})" for kind, times in sorted(counts.unknown_kinds.items()))
        faults.append(f"kinds of event we do not know were left out: {kinds}")
        how.append("report the kinds")
    whole = blind("; ".join(faults), "; ".join(how)) if faults else {"state": "visible"}
    return {"kv.events": {"state": "visible"}, "kv.events_whole": whole}
