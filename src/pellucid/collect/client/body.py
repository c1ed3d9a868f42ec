"""An ask → the body of its request, in the words of one engine. What an engine has no words for is not sent.

    body("m", Ask(0, [5, 6], 32), PLAIN)    {"model": "m", "prompt": [5, 6], "max_tokens": 32, "stream": True, …}
"""

from __future__ import annotations

from typing import Any

import msgspec

from pellucid.catalog.servers.dialects import Dialect
from pellucid.collect.client.ask import Ask


def body(model: str, ask: Ask, dialect: Dialect) -> dict[str, Any]:
    """Raises whatever a prompt that is made now raises."""
    out: dict[str, Any] = {
        "model": model,
        "prompt": ask.prompt() if callable(ask.prompt) else ask.prompt,
        "max_tokens": ask.output_tokens,
        "stream": ask.stream,
    }
    if ask.ignore_eos:
        out |= dialect.exact_length
    if ask.stream:
        out["stream_options"] = {"include_usage": True, **dialect.stream_options}
    if ask.task is not None and dialect.task:
        *outer, last = dialect.task
        label: dict[str, Any] = {last: ask.task}
        for name in reversed(outer):
            label = {name: label}
        out |= label
    return {**out, **ask.extra}


def encoded(model: str, ask: Ask, dialect: Dialect) -> bytes:
    return msgspec.json.encode(body(model, ask, dialect))
