"""Two questions to an engine: what do you answer, and how likely do you find these tokens?

    async with client(url, timeout_s=120) as http:
        served = await served_model(http)
        answer = await generate(http, served, Asked("Dear", max_tokens=64))      Answer(ids, text) or a Fault
        scores = await score(http, served, (*answer.prompt_ids, *answer.ids), first=len(answer.prompt_ids))

What goes wrong is a Fault with its reason, not an exception: it belongs into a verdict. A connection that the server
closed is tried once more; an engine that does not answer is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from pellucid.collect.client.scores import NotScored, Scores, scores_of
from pellucid.collect.openmetrics.address import endpoint

COMPLETIONS, MODELS = "/v1/completions", "/v1/models"
TOP_COUNT = 20           # likeliest tokens asked for: what engines allow unless they are told otherwise
SHOWN_CHARACTERS = 300   # of an error's text


@dataclass(frozen=True, slots=True)
class Fault:
    """kind: error (it said no), hang, lost (no connection), unreadable (a reply without what was asked for)."""

    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class Served:
    """What /v1/models says."""

    name: str
    context_tokens: int | None       # prompt and answer together; None where the engine does not say


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a client makes it. None: the client said nothing, and the engine's default holds."""

    prompt: str | tuple[int, ...]
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    response_format: Mapping[str, Any] | None = field(default=None, hash=False)
    cache_salt: str | None = None    # prefixes are shared with what has the same one only


@dataclass(frozen=True, slots=True)
class Answer:
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]             # with the token that ended it
    text: str
    finish_reason: str


def client(address: str, timeout_s: float, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A connection for each request: an idle kept one may be closed by the server in the moment it is used again.
    Raises AskedWrongly on what is no address."""
    at = endpoint(address, path="/")
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(
        base_url=at.base(), auth=at.auth, headers=dict(headers or {}), timeout=timeout_s, limits=limits,
        trust_env=False,
    )  # fmt: skip


async def served_model(http: httpx.AsyncClient) -> Served | Fault:
    """The first model the engine names."""
    reply = await _reply(http, "GET", MODELS, None)
    if isinstance(reply, Fault):
        return reply
    try:
        first = reply["data"][0]
        length = first.get("max_model_len")
        return Served(str(first["id"]), length if isinstance(length, int) else None)
    except (KeyError, IndexError, TypeError, AttributeError):
        return Fault("unreadable", f"{MODELS} names no model")


async def generate(http: httpx.AsyncClient, served: Served, asked: Asked) -> Answer | Fault:
    """One answer, sampled by the engine's own state: with a seed of its own a request may go another way inside."""
    body: dict[str, Any] = {
        "model": served.name, "prompt": asked.prompt, "max_tokens": asked.max_tokens, "return_token_ids": True,
    }  # fmt: skip
    said = {"temperature": asked.temperature, "top_p": asked.top_p, "top_k": asked.top_k,
            "response_format": asked.response_format, "cache_salt": asked.cache_salt}  # fmt: skip
    reply = await _reply(http, "POST", COMPLETIONS, {**body, **{k: v for k, v in said.items() if v is not None}})
    if isinstance(reply, Fault):
        return reply
    try:
        choice = reply["choices"][0]
        ids, prompt_ids = choice["token_ids"], choice["prompt_token_ids"]
        return Answer(tuple(map(int, prompt_ids)), tuple(map(int, ids)), str(choice["text"]), str(choice["finish_reason"]))  # noqa: E501
    except (KeyError, IndexError, TypeError, ValueError):
        return Fault("unreadable", "the answer has no token ids (`return_token_ids` was asked for)")


async def score(
    http: httpx.AsyncClient, served: Served, ids: Sequence[int], first: int, top_count: int = TOP_COUNT
) -> Scores | Fault:
    """Log-probabilities of `ids[first:]`. Send these one by one: how they are batched moves the numbers."""
    body = {
        "model": served.name, "prompt": list(ids), "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": top_count,
    }  # fmt: skip
    reply = await _reply(http, "POST", COMPLETIONS, body)
    if isinstance(reply, Fault):
        return reply
    try:
        return scores_of(reply["choices"][0].get("prompt_logprobs"), ids[first:], first, top_count)
    except NotScored as error:
        return Fault("unreadable", str(error))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return Fault("unreadable", "the reply has no choice in it")


async def _reply(http: httpx.AsyncClient, method: str, path: str, body: Mapping[str, Any] | None) -> Any | Fault:
    """Decoded JSON."""
    for attempt in (1, 2):
        try:
            reply = await http.request(method, path, json=body)
            break
        except httpx.TimeoutException:
            return Fault("hang", f"no answer within {http.timeout.read:g} s")
        except httpx.HTTPError as error:
            if attempt == 2:
                return Fault("lost", str(error) or type(error).__name__)
    if reply.status_code != 200:
        return Fault("error", f"HTTP {reply.status_code}: {reply.text[:SHOWN_CHARACTERS].strip()}")
    try:
        return msgspec.json.decode(reply.content)
    except msgspec.DecodeError as error:
        return Fault("unreadable", f"the reply is no JSON: {error}")
