"""What a step computes, and how it is spread over devices.

    Batch(decodes=(1000,) * 64)                                64 requests that decode, each with 1,000 positions
    Batch(prefills=(Chunk(tokens=2048, context_tokens=30_000),))
    Plan(tp=4, ep=4)                                           experts are spread over the ranks, not cut
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pellucid.core.errors import CannotAnswer
from pellucid.physics.cache import PLAIN, CacheFormat
from pellucid.physics.formats import BF16, Format, Precision
from pellucid.physics.formulae.collective import Algorithm, Ranks


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens of one request. Raises ValueError where there are more of them than positions."""

    tokens: int
    context_tokens: int            # positions up to the chunk's last one, cached ones in it
    sampled: bool = True           # its last token gets logits: the end of the prompt

    def __post_init__(self) -> None:
        if not 0 < self.tokens <= self.context_tokens:
            raise ValueError(f"a chunk of {self.tokens} tokens at the end of {self.context_tokens} positions")


@dataclass(frozen=True, slots=True)
class Batch:
    prefills: tuple[Chunk, ...] = ()
    decodes: tuple[int, ...] = ()  # positions each decoding request sees, its newest drafted token in them
    queries_count: int = 1         # tokens of each decode: 1, and 1 for each drafted token that is checked

    @property
    def prefill_tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.prefills)

    @property
    def decode_tokens(self) -> int:
        return len(self.decodes) * self.queries_count

    @property
    def tokens(self) -> int:
        return self.prefill_tokens + self.decode_tokens

    @property
    def requests_count(self) -> int:
        return len(self.prefills) + len(self.decodes)

    @property
    def rows(self) -> int:
        """Positions that get logits."""
        return self.decode_tokens + sum(chunk.sampled for chunk in self.prefills)


@dataclass(frozen=True, slots=True)
class Plan:
    """The step is that of one rank. Raises CannotAnswer where the ranks do not fit each other."""

    tp: int = 1                    # ranks that cut each layer
    ep: int = 1                    # ranks that share out the experts: 1, or tp times the data-parallel ranks
    domain: int = 8                # ranks in one scale-up domain
    all_reduce: Algorithm = "ring"
    cache: CacheFormat = PLAIN
    page_tokens: int = 16
    activations: Format = BF16
    precisions: frozenset[Precision] | None = None   # what the device multiplies in; None where all it is asked
    busy_ratio: float = 1.0        # mean batch of the data-parallel ranks ÷ this one's: 1 / dp where the others idle
    # Tokens that each expert of this rank got, for each layer with experts; None where nobody counted them.
    tokens_by_expert: tuple[tuple[int, ...], ...] | None = field(default=None)

    def __post_init__(self) -> None:
        if self.ep > 1 and self.ep % self.tp:
            raise CannotAnswer(f"{self.ep} expert-parallel ranks are no multiple of {self.tp} tensor-parallel ones")

    @property
    def dp(self) -> int:
        """Data-parallel ranks that share the experts. They are taken to have a batch like this one, or `busy_ratio`."""
        return max(1, self.ep // self.tp)

    def share(self, count: int, what: str) -> int:
        """A tensor-parallel rank's part. Raises CannotAnswer where it is not whole."""
        if count % self.tp:
            raise CannotAnswer(f"{count} {what} cannot be cut in {self.tp} equal parts")
        return count // self.tp

    def kv_heads(self, count: int) -> int:
        """KV heads of a rank: there is one at least, and ranks keep copies where there are fewer than ranks."""
        if count % self.tp and self.tp % count:
            raise CannotAnswer(f"{count} KV heads can neither be cut nor copied over {self.tp} ranks")
        return max(1, count // self.tp)

    def computes(self, wanted: Precision) -> Precision:
        """A format's own precision where the device has it; else what the activations are in."""
        if self.precisions is None or wanted in self.precisions:
            return wanted
        return self.activations.compute

    def ranks(self, count: int) -> Ranks:
        return Ranks(count, self.domain)
