"""Seeded traffic for tests, demos and benchmarks: the player of the product, for the engine that they start.

    asks = [Ask(at_s=0.4, prompt="Once upon", output_tokens=32, task="story"), …]
    replies = send(url, model, asks)
    replies[0].sent_ns, replies[0].first_token_ns, replies[0].output_tokens
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from pellucid.catalog.servers.dialects import Dialect, dialects
from pellucid.collect.client.ask import COMPLETIONS as TEXT
from pellucid.collect.client.ask import Arrival, Ask, Reply
from pellucid.collect.client.body import body
from pellucid.collect.client.body import encoded as of_texts
from pellucid.collect.client.play import Bounds, Target, play

__all__ = ["TEXT", "TOKENS", "Arrival", "Ask", "Reply", "body", "encoded", "send"]

ENGINE = "vllm"
TOKENS = "/inference/v1/generate"    # token ids in, token ids out: the frontend makes no text


def send(url: str, model: str, asks: Sequence[Ask], until_s: float = math.inf) -> list[Reply]:
    """Returns when all have ended, in the order of `asks`; without those that would have been due after `until_s`."""
    target = Target(url, model, dialects()[ENGINE])
    return list(play(target, asks, Bounds(until_s=until_s), encode=encoded).replies)


def encoded(model: str, ask: Ask, dialect: Dialect) -> bytes:
    if ask.path != TOKENS:
        return of_texts(model, ask, dialect)
    sampling = {"max_tokens": ask.output_tokens, "ignore_eos": ask.ignore_eos, "detokenize": False, **ask.extra}
    return msgspec.json.encode(
        {"model": model, "token_ids": ask.prompt, "sampling_params": sampling, "stream": ask.stream}
    )
