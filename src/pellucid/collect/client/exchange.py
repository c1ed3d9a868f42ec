"""One request on a connection of its own → what came back. What goes wrong is a fault with its words, no exception.

    at = await locate("http://127.0.0.1:8000")
    stream = Stream()
    wire = await exchange(at, Message("/v1/completions", body, {}), Until(timeout_s=60), stream)
    wire.status, wire.fault, wire.error

Nothing but the sockets and the parser lies between the clock and the engine: a general client was 35 ms late at
50 streams a second where this one is 3 ms (docs/decisions/0020-the-player-speaks-http-by-itself.md).
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

from pellucid.collect.client.ask import Fault
from pellucid.collect.client.events import SHOWN_CHARACTERS, Stream
from pellucid.collect.openmetrics.address import endpoint

# Of this process or host, not of the server: no file descriptor, no memory, no port left.
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)
BUSY = (429, 503)
WHOLE_BYTES = 64 * 2**20     # of an answer that is not streamed; more is no answer


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is. `address` is a number: a name would be looked up for every request."""

    address: str
    port: int
    host: str                  # as the Host header has it
    prefix: str                # of every path; "" mostly
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = True


@dataclass(frozen=True, slots=True)
class Until:
    timeout_s: float                       # then it is given up: a fault
    hang_up_s: float | None = None         # then the client leaves, as users do: no fault
    hang_up_events: int | None = None


@dataclass(slots=True)
class Wire:
    status: int | None = None
    hung_up: bool = False
    fault: Fault = ""
    error: str = ""


async def locate(url: str, headers: Mapping[str, str] | None = None) -> Place:
    """The first address of the server that takes a connection; the first of all where none does. Raises AskedWrongly on
    what is no address, OSError where the name has none."""
    at = endpoint(url, path="/")
    parts = urlsplit(at.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    given = dict(headers or {})
    if at.auth:
        given.setdefault("Authorization", "Basic " + b64encode(":".join(at.auth).encode()).decode())
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.hostname or "", port, type=1)
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    chosen = addresses[0]
    for address in addresses if len(addresses) > 1 else ():
        try:
            async with asyncio.timeout(2):
                transport, _ = await loop.create_connection(asyncio.Protocol, address, port)
        except OSError:
            continue
        transport.abort()
        chosen = address
        break
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    return Place(chosen, port, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), tls, given)


async def exchange(at: Place, message: Message, until: Until, stream: Stream) -> Wire:
    """Ends when the answer is whole, broke off, or took too long; the connection is closed in any case."""
    wire = Wire()
    answer = _Answer(wire, stream, message.stream, until.hang_up_events)
    loop, transport = asyncio.get_running_loop(), None
    leaves = until.hang_up_s is not None and until.hang_up_s < until.timeout_s
    try:
        async with asyncio.timeout(until.hang_up_s if leaves else until.timeout_s):
            host = urlsplit(f"//{at.host}").hostname if at.tls else None
            transport, _ = await loop.create_connection(
                lambda: answer, at.address, at.port, ssl=at.tls, server_hostname=host
            )
            transport.write(_written(at, message))
            await answer.done
    except TimeoutError:
        wire.hung_up = leaves
        if not leaves:
            wire.fault, wire.error = "timeout", f"no end within {until.timeout_s:g} s"
    except OSError as error:
        wire.fault = "client" if error.errno in OURS else "refused"
        wire.error = f"{type(error).__name__}: {error}"
    finally:
        if transport is not None:
            transport.abort()
    answer.judge()
    return wire


def _written(at: Place, message: Message) -> bytes:
    ours = {"Host": at.host, "Content-Type": "application/json", "Connection": "close"}
    given = {**ours, **at.headers, **message.headers, "Content-Length": str(len(message.body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"POST {at.prefix}{message.path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + message.body


class _Answer(asyncio.Protocol):
    """What the parser calls as the bytes come."""

    def __init__(self, wire: Wire, stream: Stream, streamed: bool, hang_up_events: int | None) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire, self._stream, self._streamed, self._hang_up_events = wire, stream, streamed, hang_up_events
        self._parser = httptools.HttpResponseParser(self)
        self._now_ns, self._whole = 0, bytearray()

    def data_received(self, data: bytes) -> None:
        self._now_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._wire.fault, self._wire.error = "unreadable", f"no HTTP: {error}"
            self._end()

    def on_headers_complete(self) -> None:
        self._wire.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._wire.status == 200 and self._streamed:
            self._stream.feed(self._now_ns, body)
            if self._hang_up_events is not None and self._stream.events_count >= self._hang_up_events:
                self._wire.hung_up = True
                self._end()
        elif len(self._whole) < WHOLE_BYTES:
            self._whole += body

    def on_message_complete(self) -> None:
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not self.done.done():
            self._wire.fault, self._wire.error = "lost", f"{type(error).__name__}: {error}"
        self._end()

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def judge(self) -> None:
        """What the answer was, once it has ended."""
        wire, stream = self._wire, self._stream
        if wire.hung_up or wire.fault:
            return
        if wire.status is None:
            wire.fault, wire.error = "lost", "the connection was closed without an answer"
        elif wire.status != 200:
            wire.fault = "busy" if wire.status in BUSY else "server" if wire.status >= 500 else "refusal"
            said = self._whole[:SHOWN_CHARACTERS].decode(errors="replace")
            wire.error = said or f"HTTP {wire.status} without a word"
        elif not self._streamed:
            stream.take(self._now_ns, bytes(self._whole))
        if not wire.fault and stream.fault:
            wire.fault, wire.error = stream.fault, stream.error
        if not wire.fault and self._streamed and not stream.ended and stream.finish_reason is None:
            wire.fault, wire.error = "cut", "the stream stopped before its end"
