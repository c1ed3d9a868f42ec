"""Seeded traffic against an OpenAI-compatible engine, and what the client saw of it.

    asks = [Ask(at_s=0.4, prompt="Once upon", output_tokens=32, task="story"), …]
    replies = send(url, model, asks)
    replies[0].sent_ns, replies[0].first_token_ns, replies[0].output_tokens

Open loop: an ask goes out at `at_s`, whatever the engine does; `after` makes it follow another one instead (a user
who waits for the answer), so that the load follows the engine's speed. Client times are CLOCK_MONOTONIC ns, so on
the engine's host they compare with a recording's. While streams run only bytes and times are kept; they are parsed
afterwards, so the client stays cheap, and `lag_ns` says how late it was all the same.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

TEXT = "/v1/completions"
TOKENS = "/inference/v1/generate"    # token ids in, token ids out: the frontend makes no text


@dataclass(frozen=True, slots=True)
class Ask:
    at_s: float                              # since the traffic's start; since the end of `after` where that is set
    prompt: str | list[int]
    output_tokens: int
    task: str | None = None                  # sent as a label in vllm_xargs
    request_id: str | None = None            # sent as X-Request-Id
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = TEXT
    stream: bool = True
    after: int | None = None                 # index of the ask whose end starts this one
    hang_up_s: float | None = None           # close the connection so long after sending
    hang_up_tokens: int | None = None        # … or after so many stream events
    ignore_eos: bool = True                  # False: the model may end early
    extra: Mapping[str, object] = field(default_factory=dict)   # further body fields


@dataclass(frozen=True, slots=True)
class Arrival:
    """Stream events that reached the client in one read."""

    time_ns: int
    output_tokens: int      # the engine's count so far


@dataclass(frozen=True, slots=True)
class Reply:
    ask: Ask
    lag_ns: int                      # how much later than planned the client sent it
    sent_ns: int
    end_ns: int
    status: int | None               # HTTP status; None if the connection failed or was closed before it came
    response_id: str | None
    arrivals: tuple[Arrival, ...]
    prompt_tokens: int | None
    output_tokens: int | None        # None where the client never saw a count
    finish_reason: str | None
    hung_up: bool
    error: str = ""

    @property
    def first_token_ns(self) -> int | None:
        return self.arrivals[0].time_ns if self.arrivals else None

    @property
    def ok(self) -> bool:
        return self.status == 200 and not self.error


@dataclass(slots=True)
class _Wire:
    """What came over one connection, as it came."""

    status: int | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    hung_up: bool = False
    error: str = ""


def send(url: str, model: str, asks: Sequence[Ask], until_s: float = math.inf) -> list[Reply]:
    return asyncio.run(send_async(url, model, asks, until_s))


async def send_async(url: str, model: str, asks: Sequence[Ask], until_s: float = math.inf) -> list[Reply]:
    """Sends every ask at its time; returns when all have ended, in the order of `asks`.

    What would be due after `until_s` is not sent, and not in the result; what runs then may finish.
    """
    ended = [asyncio.Event() for _ in asks]
    # A connection each: an idle kept one may be closed by the server in the moment it is used again.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=None, trust_env=False) as client:
        began_ns = time.monotonic_ns()

        async def one(index: int, ask: Ask) -> Reply | None:
            start_ns = began_ns
            if ask.after is not None:
                await ended[ask.after].wait()
                start_ns = time.monotonic_ns()
            due_ns = start_ns + int(ask.at_s * 1e9)
            if due_ns - began_ns > until_s * 1e9:
                ended[index].set()
                return None
            await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            sent_ns = time.monotonic_ns()
            wire = await _exchange(client, model, ask)
            end_ns = time.monotonic_ns()
            ended[index].set()
            return _reply(ask, sent_ns - due_ns, sent_ns, end_ns, wire)

        replies = await asyncio.gather(*(one(i, a) for i, a in enumerate(asks)))
    return [reply for reply in replies if reply is not None]


def body(model: str, ask: Ask) -> dict[str, object]:
    if ask.path == TOKENS:
        sampling = {"max_tokens": ask.output_tokens, "ignore_eos": ask.ignore_eos, "detokenize": False, **ask.extra}
        return {"model": model, "token_ids": ask.prompt, "sampling_params": sampling, "stream": ask.stream}
    out: dict[str, object] = {
        "model": model,
        "prompt": ask.prompt,
        "max_tokens": ask.output_tokens,
        "ignore_eos": ask.ignore_eos,
        "stream": ask.stream,
        **ask.extra,
    }
    if ask.stream:
        out["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if ask.task is not None:
        out["vllm_xargs"] = {"task": ask.task}
    return out


async def _exchange(client: httpx.AsyncClient, model: str, ask: Ask) -> _Wire:
    wire = _Wire()
    headers = dict(ask.headers)
    if ask.request_id is not None:
        headers["X-Request-Id"] = ask.request_id
    try:
        async with asyncio.timeout(ask.hang_up_s):
            async with client.stream("POST", ask.path, json=body(model, ask), headers=headers) as response:
                wire.status = response.status_code
                await _read(response, ask, wire)
    except TimeoutError:
        wire.hung_up = True
    except httpx.HTTPError as error:
        wire.error = f"{type(error).__name__}: {error}"
    return wire


async def _read(response: httpx.Response, ask: Ask, wire: _Wire) -> None:
    events = 0
    async for data in response.aiter_raw():
        wire.chunks.append((time.monotonic_ns(), data))
        if ask.hang_up_tokens is not None:
            events += data.count(b"data: ")
            if events >= ask.hang_up_tokens:
                wire.hung_up = True
                return


def _reply(ask: Ask, lag_ns: int, sent_ns: int, end_ns: int, wire: _Wire) -> Reply:
    whole = b"".join(data for _, data in wire.chunks)
    events: list[tuple[int, dict[str, object]]] = []
    error = wire.error
    if wire.status is not None and wire.status != 200:
        error = whole.decode(errors="replace")[:500]
    elif ask.stream:
        events = parse_stream(wire.chunks)
    elif whole and not wire.error and not wire.hung_up:
        events = [(wire.chunks[-1][0], json.loads(whole))]
    seen = _Seen()
    for time_ns, event in events:
        seen.take(time_ns, event)
    return Reply(
        ask, lag_ns, sent_ns, end_ns, wire.status, seen.response_id, tuple(seen.arrivals), seen.prompt_tokens,
        seen.output_tokens, seen.finish_reason, wire.hung_up, error or seen.error,
    )  # fmt: skip


@dataclass(slots=True)
class _Seen:
    """Folds a reply's events into what they say."""

    response_id: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    error: str = ""
    arrivals: list[Arrival] = field(default_factory=list)

    def take(self, time_ns: int, event: dict[str, object]) -> None:
        if "error" in event:
            self.error = json.dumps(event["error"])
            return
        self.response_id = str(event.get("id")) if event.get("id") else self.response_id
        for choice in _list(event.get("choices")):
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        usage = event.get("usage")
        if not isinstance(usage, dict):
            return
        self.prompt_tokens = int(usage["prompt_tokens"])
        total = int(usage["completion_tokens"])
        grew = total > (self.output_tokens or 0)
        self.output_tokens = total
        if grew and self.arrivals and self.arrivals[-1].time_ns == time_ns:
            self.arrivals[-1] = Arrival(time_ns, total)
        elif grew:
            self.arrivals.append(Arrival(time_ns, total))


def _list(value: object) -> list[dict[str, str | None]]:
    return value if isinstance(value, list) else []


def parse_stream(chunks: Sequence[tuple[int, bytes]]) -> list[tuple[int, dict[str, object]]]:
    """Server-sent events with the time at which each was complete. An event cut short is left out."""
    out: list[tuple[int, dict[str, object]]] = []
    rest = b""
    for time_ns, data in chunks:
        *whole, rest = (rest + data).split(b"\n\n")
        for event in whole:
            text = event.strip().removeprefix(b"data: ")
            if text and text != b"[DONE]":
                out.append((time_ns, json.loads(text)))
    return out
