"""What a server says of itself before anything is sent, and what its model's files say: who, how long, which tokens.

    found = served("http://127.0.0.1:8000", model=None, headers={})
    found.model, found.engine, found.context_tokens, found.root      "m", "some-engine", 8192, "/models/m"
    vocabulary_of({"vocab_size": 4096, "bos_token_id": 2, "eos_token_id": 1})      (4096, 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from pellucid.catalog.servers.dialects import PLAIN, Dialect, dialects
from pellucid.collect.openmetrics.address import endpoint
from pellucid.core.errors import AskedWrongly, Failed

TIMEOUT_S = 30.0
NESTED = ("text_config", "llm_config", "language_config")     # where a multimodal model has its language part


@dataclass(frozen=True, slots=True)
class Served:
    model: str
    engine: str | None               # None: nobody we know
    dialect: Dialect
    context_tokens: int | None       # prompt and answer together; None where the server does not say
    root: str | None                 # where its files came from, as the server says




class _Cards(msgspec.Struct):
    data: list[dict[str, Any]]


def served(url: str, model: str | None, headers: Mapping[str, str]) -> Served:
    """`model`: the one to ask for; None for the first.

    Raises AskedWrongly on what is no address and on a model that is not there, Failed where nobody answers.
    """
    cards = _cards(url, headers)
    names = [str(card["id"]) for card in cards]
    wanted = names[0] if model is None else model
    if wanted not in names:
        raise AskedWrongly(f"{url} serves no model {wanted!r}. Try: --model {names[0]}")
    card = cards[names.index(wanted)]
    owner = card.get("owned_by")
    engine = next((name for name, d in dialects().items() if d.owned_by == owner), None)
    dialect = dialects()[engine] if engine is not None else PLAIN
    context, root = card.get(dialect.context), card.get(dialect.root)
    return Served(wanted, engine, dialect, context if isinstance(context, int) else None,
                  root if isinstance(root, str) else None)  # fmt: skip


def vocabulary_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """(count, reserved) from a checkpoint's config.json: ids from the second up to the first are ordinary tokens, since
    a tokenizer's special ones lie at either end. None where it does not say how many there are."""
    inner: Mapping[str, Any] = next((config[n] for n in NESTED if isinstance(config.get(n), Mapping)), {})
    both = {**config, **inner}
    count = both.get("vocab_size")
    if not isinstance(count, int):
        return None
    special = [i for k, v in (*config.items(), *inner.items()) if k.endswith(("_token_id", "_token_index"))
               for i in (v if isinstance(v, list) else [v]) if isinstance(i, int) and 0 <= i < count]  # fmt: skip
    low, high = [i for i in special if i < count / 2], [i for i in special if i >= count / 2]
    return min(high, default=count), max(low, default=-1) + 1


def _cards(url: str, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    at = endpoint(url, path="/")
    address = f"{at.url.rstrip('/').removesuffix('/v1')}/v1/models"
    try:
        reply = httpx.get(address, headers=dict(headers), auth=at.auth, timeout=TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        raise Failed(f"{address}: {error or type(error).__name__}. Try: --url http://host:port of a server that runs") from error  # noqa: E501
    try:
        cards = msgspec.json.decode(reply.content, type=_Cards).data if reply.status_code == 200 else []
    except msgspec.DecodeError:
        cards = []
    if not cards or not all("id" in card for card in cards):
        said = f"HTTP {reply.status_code}" if reply.status_code != 200 else "no list of models"
        raise Failed(f"{address}: {said}. It has to be an OpenAI-compatible server; a key goes into "
                     "PELLUCID_AUTHORIZATION='Bearer …'")  # fmt: skip
    return cards
