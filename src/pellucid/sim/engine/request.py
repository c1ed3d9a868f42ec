"""A request: what is asked, what it is while it runs, and what it was.

    Ask(arrival_ns=0, prompt_tokens=500, output_tokens=100, blocks=(0, 1), block_tokens=256)
    Served(ask, first_step=3, first_token_step=4, token_steps=((4, 103),), cached_tokens=256, preemptions_count=0)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """A number in `blocks` stands for a block of prompt tokens and all before it, as in a workload's file."""

    arrival_ns: int                    # of a later turn: ignored, it comes `think_ns` after its predecessor's end
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    block_tokens: int = 0
    follows: int | None = None         # place of the turn before it among all asks
    think_ns: int = 0

    def keys(self, block_tokens: int) -> list[Hashable]:
        """What stands in the prompt's whole blocks of an engine, as far as it is known; equal keys, equal tokens."""
        if not self.block_tokens:
            return []
        ends = range(block_tokens, self.prompt_tokens + 1, block_tokens)
        known = len(self.blocks)
        return [(self.blocks[at], end) for end in ends if (at := (end - 1) // self.block_tokens) < known]


@dataclass(frozen=True, slots=True)
class Served:
    """Steps are numbered from 0 on, as they ran."""

    ask: int                           # its place among all asks
    arrived_ns: int
    first_step: int
    first_token_step: int
    token_steps: tuple[tuple[int, int], ...]     # first and last step of each stretch with a token in every step
    cached_tokens: int                 # found at first admission
    preemptions_count: int
    recomputed_tokens: int | None      # None: who played does not tell


@dataclass(frozen=True, slots=True)
class Refused:
    ask: int
    reason: str


@dataclass(slots=True, eq=False)
class Live:
    """While it waits or runs. In a decode `computed` is not kept: it is the clock of decodes plus `ahead`."""

    index: int
    ask: Ask
    arrived_ns: int
    output_tokens: int
    keys: list[Hashable]
    blocks: list[int] = field(default_factory=list)
    computed: int = 0                  # positions, while in prefill
    sampled: int = 0                   # answer tokens, while it does not decode
    decoding: bool = False
    gone: bool = False
    ahead: int = 0
    version: int = 0                   # of its entries in the calendars
    since: int = 0                     # step of the first token of the present stretch
    first_step: int = -1
    first_token_step: int = -1
    stretches: list[tuple[int, int]] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions_count: int = 0
    recomputed_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and what has been answered: what must be computed before the next token. Not while it decodes."""
        return self.ask.prompt_tokens + self.sampled

    @property
    def last(self) -> int:
        """Positions that are computed when the last token is sampled."""
        return self.ask.prompt_tokens + self.output_tokens - 1

    def key(self, place: int) -> Hashable:
        """Of the block at this place; contents that nobody else can have are known by who made them."""
        return self.keys[place] if place < len(self.keys) else (-1 - self.index, place)
