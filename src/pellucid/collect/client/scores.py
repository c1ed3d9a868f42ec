"""What an engine says of tokens it is shown: a reply with prompt log-probabilities → arrays, a row for each token.

    scores = scores_of(reply["choices"][0]["prompt_logprobs"], ids=(818, 6420), first=7, top_count=20)
    scores.logps        [-1.31, -0.02]          of the tokens themselves, in nats
    scores.top_ids      [[818, 107, …], …]      the likeliest tokens, likeliest first
    scores.top_logps    [[-0.9, -1.31, …], …]

An entry of the reply is {"818": {"logprob": -1.31, "rank": 2, …}, …}: the likeliest tokens and the one that is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class NotScored(Exception):
    """The reply does not hold what was asked for; the message says what it held."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one answer, teacher-forced. T tokens, K likeliest."""

    ids: Ints             # (T,)
    logps: Floats         # (T,) nats
    top_ids: Ints         # (T, K)
    top_logps: Floats     # (T, K) nats, falling

    def __len__(self) -> int:
        return len(self.ids)


def scores_of(entries: Any, ids: Sequence[int], first: int, top_count: int) -> Scores:
    """`first`: place of the answer's first token in the reply. Raises NotScored, also for numbers that are none."""
    if not isinstance(entries, list) or len(entries) < first + len(ids):
        said = "none" if not isinstance(entries, list) else f"{len(entries)} positions"
        raise NotScored(f"log-probabilities of {first + len(ids)} positions were asked for; the reply has {said}")
    rows = [_row(entries[first + place], token, top_count) for place, token in enumerate(ids)]
    return Scores(
        np.array(ids, dtype=np.int64),
        np.array([row[0] for row in rows], dtype=np.float64),
        np.array([row[1] for row in rows], dtype=np.int64).reshape(len(ids), top_count),
        np.array([row[2] for row in rows], dtype=np.float64).reshape(len(ids), top_count),
    )


def _row(entry: Any, token: int, top_count: int) -> tuple[float, list[int], list[float]]:
    if not isinstance(entry, Mapping) or str(token) not in entry:
        raise NotScored(f"the reply has no log-probability of token {token}, which it was shown")
    pairs = {int(name): _finite(value) for name, value in entry.items()}
    ranked = sorted(pairs.items(), key=lambda pair: -pair[1])[:top_count]
    if len(ranked) < top_count:
        raise NotScored(f"{top_count} log-probabilities a token were asked for; the reply has {len(ranked)}")
    return pairs[token], [name for name, _ in ranked], [value for _, value in ranked]


def _finite(value: Any) -> float:
    number = value.get("logprob") if isinstance(value, Mapping) else None
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise NotScored(f"a log-probability in the reply is {number!r}")
    return float(number)
