"""ZeroMQ: the publisher's stream and its replay socket, never waiting. The only place that knows the library.

    SUB     connects to the publisher, all topics
    DEALER  asks the replay socket (a ROUTER): ["", first number]; a REQ socket would get the first answer only
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.core.errors import AskedWrongly

if TYPE_CHECKING:
    import zmq

HELD = 100_000            # messages the library keeps for us while we are busy; the publisher's own default
AT_ONCE = 2_000           # messages taken in one go, so that a busy publisher cannot hold up the rest of a recorder


@dataclass(slots=True)
class Sockets:
    events: zmq.Socket[bytes]
    replay: zmq.Socket[bytes]
    may_replay: bool

    def received(self) -> Iterator[list[bytes]]:
        yield from _drain(self.events)

    def answers(self) -> Iterator[list[bytes]]:
        if self.may_replay:
            yield from _drain(self.replay)

    def ask(self, first: int) -> None:
        if self.may_replay:
            self.replay.send_multipart([b"", first.to_bytes(8, "big")])

    def close(self) -> None:
        self.events.close(linger=0)
        self.replay.close(linger=0)


def connect(events: str, replay: str | None) -> Sockets:
    """Raises AskedWrongly on an address that is none."""
    import zmq

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    stream, dealer = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    stream.setsockopt(zmq.RCVHWM, HELD)
    stream.setsockopt(zmq.SUBSCRIBE, b"")
    for socket, address in ((stream, events), (dealer, replay)):
        try:
            if address is not None:
                socket.connect(address)
        except zmq.ZMQError as error:
            stream.close(linger=0)
            dealer.close(linger=0)
            raise AskedWrongly(f"{address!r} is no address of a publisher: {error}. Write it as tcp://host:5557") from error  # noqa: E501
    return Sockets(stream, dealer, replay is not None)


def _drain(socket: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
    import zmq

    for _ in range(AT_ONCE):
        try:
            yield socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
