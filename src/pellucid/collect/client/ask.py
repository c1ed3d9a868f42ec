"""What a client asks an engine for, and what it saw of the answer.

    Ask(at_s=0.4, prompt=[5, 6, 7], output_tokens=32, task="story")
    reply.sent_ns, reply.arrivals[0].time_ns, reply.output_tokens, reply.fault

Client times are CLOCK_MONOTONIC ns, so on the engine's host they compare with a recording's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

COMPLETIONS = "/v1/completions"
Prompt = str | Sequence[int] | Callable[[], Sequence[int]]     # a callable makes it when it is needed, not before
# client: this process has no socket left. refused: no connection. lost: it broke off. cut: a stream without an end.
# unreadable: no such events. timeout: no end in time. refusal: 4xx. busy: 429 and 503. server: 5xx, or an error event.
Fault = Literal["", "client", "refused", "lost", "cut", "unreadable", "timeout", "refusal", "busy", "server"]


@dataclass(frozen=True, slots=True)
class Ask:
    """Goes out at `at_s`, whatever the engine does; with `after`, so long after the end of that one (a user who waits
    for the answer), and not before `earliest_s`."""

    at_s: float                              # since the start; since the end of `after` where that is set
    prompt: Prompt
    output_tokens: int
    task: str | None = None                  # sent as a label, where the engine takes one
    request_id: str | None = None            # sent as X-Request-Id
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = COMPLETIONS
    stream: bool = True
    after: int | None = None                 # index of the ask whose end starts this one
    earliest_s: float = 0.0                  # since the start
    hang_up_s: float | None = None           # close the connection so long after sending
    hang_up_tokens: int | None = None        # … or after so many stream events
    ignore_eos: bool = True                  # the answer is as long as asked for, where the engine takes that
    extra: Mapping[str, object] = field(default_factory=dict)   # further body fields


@dataclass(frozen=True, slots=True)
class Arrival:
    """Output that reached the client in one read."""

    time_ns: int
    output_tokens: int | None      # the engine's count so far; None where it does not count in its events


@dataclass(frozen=True, slots=True)
class Reply:
    ask: Ask
    lag_ns: int                      # how much later than planned the client sent it
    sent_ns: int                     # the connection is opened then
    end_ns: int
    status: int | None               # HTTP status; None if the connection failed or was closed before it came
    response_id: str | None
    arrivals: tuple[Arrival, ...]
    prompt_tokens: int | None
    output_tokens: int | None        # None where the client never saw a count
    finish_reason: str | None
    hung_up: bool
    fault: Fault = ""
    error: str = ""                  # the fault in words

    @property
    def first_token_ns(self) -> int | None:
        return self.arrivals[0].time_ns if self.arrivals else None

    @property
    def ok(self) -> bool:
        return self.status == 200 and not self.fault
