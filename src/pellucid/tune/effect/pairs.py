"""What was measured of two arms in turn: a block of each, next to each other, is a pair. Nothing is judged here.

        pair 1 (ab)       pair 2 (ba)       pair 3 (ba)            a  the present configuration
    |   a   |   b   | |   b   |   a   | |   b   |   a   |  …       b  the candidate

Which arm comes first is a fair coin, tossed anew for each pair (`toss`). That coin is what the verdict rests on: if the
arms are the same, then whatever the machine did in the two halves of a pair, each of them got either half by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

Order = Literal["ab", "ba"]
NS_PER_S: Final = 1_000_000_000
NS_PER_MINUTE: Final = 60 * NS_PER_S

# What can be judged: 1 where more is better, -1 where less is.
DIRECTIONS: Final[dict[str, int]] = {
    "output_tokens_per_s": 1, "goodput_per_s": 1,
    "tpot_mean_ns": -1, "ttft_p50_ns": -1, "ttft_p95_ns": -1, "itl_p95_ns": -1, "e2e_p95_ns": -1,
}


@dataclass(frozen=True, slots=True)
class Block:
    """One arm's measures in one block. None is what nobody saw: such as a TPOT where no request had two tokens."""

    output_tokens_per_s: float | None
    tpot_mean_ns: float | None
    ttft_p50_ns: float | None
    ttft_p95_ns: float | None
    itl_p95_ns: float | None
    e2e_p95_ns: float | None
    requests_count: int     # that were due in this block and sent
    errors_count: int       # of them: refused, broken off, timed out
    good_count: int | None  # of them: answered within the SLO; None where no SLO was given
    duration_ns: int

    @property
    def goodput_per_s(self) -> float | None:
        """Requests within the SLO in a second."""
        if self.good_count is None or self.duration_ns <= 0:
            return None
        return self.good_count / (self.duration_ns / NS_PER_S)

    @property
    def failed_because(self) -> str | None:
        """Why this block says that its arm does not serve; None if it serves."""
        if self.errors_count > 0:
            return f"{self.errors_count} of {self.requests_count} requests failed"
        return None if self.output_tokens_per_s else "no output"

    def goodness(self, metric: str) -> float | None:
        """Logarithm of the metric, turned so that more is better; -inf for a failed block, None for what nobody saw."""
        if self.failed_because is not None:
            return -math.inf
        value: float | None = getattr(self, metric)
        if value is None or value < 0 or (value == 0 and DIRECTIONS[metric] < 0):
            return None
        return DIRECTIONS[metric] * math.log(value) if value else -math.inf


@dataclass(frozen=True, slots=True)
class Pair:
    """Two blocks of the same piece of traffic, next to each other in time."""

    a: Block            # the present configuration
    b: Block            # the candidate
    order: Order        # which of them came first
    start: int = 0      # counts the starts of engines: pairs of one number were measured on the same processes

    @property
    def duration_ns(self) -> int:
        return self.a.duration_ns + self.b.duration_ns

    def gain(self, metric: str) -> float | None:
        """Logarithm of how much better b is: 0.05 is about 5 %. None where the pair says nothing.

        +inf where only a failed, -inf where only b did, and so for a value that only one of them has: what failed is
        worse than anything that did not, in every metric, and is never dropped.
        """
        a, b = self.a.goodness(metric), self.b.goodness(metric)
        if a in (None, -math.inf) and b in (None, -math.inf):
            return None
        if a is None or b is None:
            return math.inf if a is None else -math.inf
        return b - a

    def swapped(self) -> Pair:
        """The same pair with the names of its arms exchanged."""
        return Pair(a=self.b, b=self.a, order="ba" if self.order == "ab" else "ab", start=self.start)


def toss(coin: Random) -> Order:
    """The order of the next pair. Tossed when the pair begins, not before, by a generator whose seed is on record."""
    return "ab" if coin.random() < 0.5 else "ba"
