"""A workload → prompts: token ids of nobody, as long as the source's and alike where the source's were alike.

    for tokens in prompts(workload, Vocabulary(151_643), seed=0): ...       int64 ids, prompt_tokens of them

A token is a function of seed, block number and place in the block; behind the known blocks, of seed, row and place. So
the same seed gives the same prompts on every machine, in any order, and nothing has to be remembered. Two blocks of
different numbers could draw the same tokens: of 16 tokens out of 50,000, once in 10^75 pairs.

The mixing function is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import Workload

Words = np.ndarray[Any, np.dtype[np.uint64]]
Tokens = np.ndarray[tuple[int], np.dtype[np.int64]]
BLOCK, OWN = 0x626C6F636B, 0x6F776E          # domains: a row's own tokens are no block's
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB      # of splitmix64
BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids from `reserved_count` up to `count` are drawn; those below are a tokenizer's special ones."""

    count: int
    reserved_count: int = 0

    def __post_init__(self) -> None:
        """Raises AskedWrongly: of one token, all prompts would be alike."""
        if self.reserved_count < 0 or self.count - self.reserved_count < 2:
            reserved = f"{self.reserved_count:,} reserved"
            raise AskedWrongly(f"a vocabulary of {self.count:,} tokens with {reserved} leaves nothing to draw from")


def prompts(workload: Workload, vocabulary: Vocabulary, seed: int = 0) -> Iterator[Tokens]:
    """A prompt for each request, in order, each of shape (prompt_tokens,)."""
    wanted = workload.requests.select(["prompt_tokens", "blocks", "block_tokens"])
    row = 0
    for batch in wanted.to_batches(max_chunksize=BATCH_ROWS):
        for request in batch.to_pylist():
            known = request["blocks"] or []
            yield prompt(request["prompt_tokens"], known, request["block_tokens"] or 0, (vocabulary, seed, row))
            row += 1


def prompt(length: int, blocks: Sequence[int], block_tokens: int, draw: tuple[Vocabulary, int, int]) -> Tokens:
    """Of one request. `draw`: vocabulary, seed, row of the request."""
    vocabulary, seed, row = draw
    known = min(length, len(blocks) * block_tokens)
    numbers = np.array(blocks, dtype=np.int64).view(np.uint64)
    places = np.arange(known, dtype=np.uint64)
    sources = _mixed(numbers ^ _word(seed, BLOCK))
    shared = np.repeat(sources, block_tokens)[:known] + places % np.uint64(block_tokens or 1)
    own = _mixed(np.array([row], dtype=np.uint64) ^ _word(seed, OWN)) + np.arange(known, length, dtype=np.uint64)
    words = _mixed(np.concatenate([shared, own]))
    span = np.uint64(vocabulary.count - vocabulary.reserved_count)
    return (words % span).astype(np.int64) + vocabulary.reserved_count


def _word(seed: int, domain: int) -> np.uint64:
    found = _mixed(np.array([(seed ^ domain << 20) & (2**64 - 1)], dtype=np.uint64))
    return np.uint64(found[0])


def _mixed(words: Words) -> Words:
    """The output function of splitmix64; arithmetic is modulo 2^64."""
    words = words + np.uint64(_GAMMA)
    words = (words ^ words >> np.uint64(30)) * np.uint64(_FIRST)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SECOND)
    return words ^ words >> np.uint64(31)
