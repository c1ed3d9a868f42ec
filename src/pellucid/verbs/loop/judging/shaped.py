"""A workload's requests and our own text as token ids → prompts as long and as alike as the workload's, that read.

    request   blocks       shares    prompt
    1         [0, 1, 2]    0 1       |text of 0|text of 1|… a whole text|
    2         [0, 1, 5]    0 1       |text of 0|text of 1|… a whole text|
    3         [0, 9]       0         |text of 0|        … a whole text  |

All lengths shrink by one ratio, blocks too, so what prompts share stays the same share of them. Ids drawn at random
would be as long and as alike, but a model is unsure of whatever comes behind them, and so it is behind a piece of text:
each prompt ends with a whole one, and is longer than its request where that is shorter. Nothing is asked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.workload.neutral import JSON_OBJECT, Prompt

Ids = tuple[int, ...]
FITTING_RATIO = 0.9      # chosen: of the requests that has to fit; a few very long ones would shorten all


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of ours as the engine's tokenizer has them; of each kind at least one."""

    begin: Ids                       # what it puts before every prompt
    plain: tuple[Ids, ...]
    json: tuple[Ids, ...]            # after which JSON follows


@dataclass(frozen=True, slots=True)
class Size:
    """Of the prompts and answers that are judged."""

    ratio: float                     # of the workload's own lengths
    most_tokens: int                 # requests above are left out
    answer_tokens: int               # answers are cut there


def sized(requests: pa.Table, ratio: float, most_tokens: int, answer_tokens: int) -> Size:
    """`ratio` or what makes most prompts fit, whichever is less."""
    lengths = requests.column("prompt_tokens").to_numpy()
    long = float(np.quantile(lengths, FITTING_RATIO, method="lower")) if len(lengths) else 0.0
    return Size(min(ratio, most_tokens / long) if long else ratio, most_tokens, answer_tokens)


def shaped(requests: pa.Table, size: Size, text: Text, ratio: float, seed: int) -> list[Prompt]:
    """Of the requests that fit, in their order. `ratio` is that of answers."""
    rows = [r for r in requests.to_pylist() if r["prompt_tokens"] and _length(r, size) <= size.most_tokens]
    seen = Counter(number for r in rows for number in r["blocks"] or ())
    return [_prompt(row, place, size, text, ratio, seed, seen) for place, row in enumerate(rows)]


def _prompt(
    row: dict[str, Any], place: int, size: Size, text: Text, ratio: float, seed: int, seen: Counter[int]
) -> Prompt:  # fmt: skip
    wants_json = (row["response_format"] or "").startswith("json")
    length = max(len(text.begin) + 1, _length(row, size))
    blocks: Sequence[int] = row["blocks"] or ()
    shared = next((n for n, number in enumerate(blocks) if seen[number] < 2), len(blocks))
    width = (row["block_tokens"] or 0) * size.ratio
    ids = list(text.begin)
    for n, number in enumerate(blocks[:shared]):
        ids += _stream(text.plain, number * 31 + seed, min(length, round((n + 1) * width)) - len(ids))
    last_ones = text.json if wants_json else text.plain
    which = blocks[-1] if blocks and shared == len(blocks) and len(ids) >= length else place     # alike, where all is
    last = last_ones[(which + seed) % len(last_ones)]
    ids += _stream(text.plain, place * 17 + seed + 5, length - len(ids) - len(last))
    ids += last
    asked = row["output_tokens"] or row["max_tokens"]
    answer = size.answer_tokens if asked is None else min(size.answer_tokens, max(1, round(asked * ratio)))
    return Prompt(row["task"], tuple(ids), answer, row["temperature"], row["top_p"], row["top_k"],
                  JSON_OBJECT if wants_json else None)  # fmt: skip


def _length(row: dict[str, Any], size: Size) -> int:
    tokens: int = row["prompt_tokens"]
    return round(tokens * size.ratio)


def _stream(texts: Sequence[Ids], number: int, length: int) -> list[int]:
    """One text after another, from the one that the number says, and the place in it: numbers differ, so do streams."""
    turn, place = divmod(number, len(texts))
    first = texts[place]
    found = list(first[turn % len(first):])
    while len(found) < length:
        place += 1
        found += texts[place % len(texts)]
    return found[:max(0, length)]
