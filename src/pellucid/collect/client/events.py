"""Bytes of an answer, as they come → what they say: ids, counts, when output came, how it ended.

    seen = Stream()
    seen.feed(1_000, b'data: {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}\\n\\n')
    seen.arrivals      [Arrival(time_ns=1000, output_tokens=1)]

An event has the time of the read that completed its line. Texts are looked at for being empty, and not kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from pellucid.collect.client.ask import Arrival, Fault

SHOWN_CHARACTERS = 500      # of an error's text


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    id: str | None = None
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class Stream:
    """Folds server-sent events into what they say."""

    response_id: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    ended: bool = False              # it said that nothing follows
    fault: Fault = ""
    error: str = ""
    arrivals: list[Arrival] = field(default_factory=list)
    events_count: int = 0
    _rest: bytes = b""

    def feed(self, time_ns: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                said = line[5:].strip()
                self.events_count += 1
                if said == b"[DONE]":
                    self.ended = True
                else:
                    self.take(time_ns, said)

    def take(self, time_ns: int, said: bytes) -> None:
        """One event, or a whole answer that was not streamed."""
        try:
            event = _decoder.decode(said)
        except msgspec.DecodeError as error:
            self._fail("unreadable", f"{error}: {said[:80].decode(errors='replace')}")
            return
        if event.error is not None:
            self._fail("server", msgspec.json.encode(event.error).decode())
            return
        self.response_id = event.id or self.response_id
        for choice in event.choices:
            self.finish_reason = choice.finish_reason or self.finish_reason
        if event.usage is not None:
            self._count(time_ns, event.usage)
        elif any(c.text or (c.delta and c.delta.content) for c in event.choices):
            self._arrive(Arrival(time_ns, None))

    def _count(self, time_ns: int, usage: _Usage) -> None:
        self.prompt_tokens = usage.prompt_tokens
        grew = usage.completion_tokens > (self.output_tokens or 0)
        self.output_tokens = usage.completion_tokens
        counted = not self.arrivals or self.arrivals[-1].output_tokens is not None
        if grew and counted:      # a count at the end, behind events without any, is no output of its own
            self._arrive(Arrival(time_ns, usage.completion_tokens))

    def _arrive(self, arrival: Arrival) -> None:
        if self.arrivals and self.arrivals[-1].time_ns == arrival.time_ns:
            self.arrivals[-1] = arrival
        else:
            self.arrivals.append(arrival)

    def _fail(self, fault: Fault, error: str) -> None:
        self.fault, self.error = self.fault or fault, self.error or error[:SHOWN_CHARACTERS]
