"""What one piece of work must do: operations by precision, bytes of memory, exponentials, bytes on the wire.

    Work.of("bf16", flop=2e12, moved_bytes=4e9) + Work.of("fp32", flop=1e9, moved_bytes=1e8)

Compulsory work only: every input read once, every output written once. A kernel that moves more is less efficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pellucid.physics.formats import PRECISIONS, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Work:
    """Sums are exact: works add up part by part. A multiply-add is 2 flop."""

    flops: tuple[tuple[Precision, float], ...] = ()   # by precision, in the order of PRECISIONS, none of them 0
    moved_bytes: float = 0.0       # read and written in the device's own memory
    exp_count: float = 0.0         # exponentials: of a softmax, of an activation
    link_bytes: float = 0.0        # sent by this rank inside its scale-up domain
    network_bytes: float = 0.0     # sent by this rank out of it
    assumes: tuple[str, ...] = ()  # what was assumed where nobody counted, in words

    @staticmethod
    def of(precision: Precision, flop: float, moved_bytes: float, exp_count: float = 0.0) -> Work:
        return Work(((precision, flop),) if flop else (), moved_bytes, exp_count)

    @property
    def flop(self) -> float:
        return sum(flop for _, flop in self.flops)

    def flop_in(self, precision: Precision) -> float:
        return dict(self.flops).get(precision, 0.0)

    @property
    def intensity(self) -> float | None:
        """flop for each byte moved; None where nothing moves."""
        return self.flop / self.moved_bytes if self.moved_bytes else None

    def assuming(self, *what: str) -> Work:
        words = tuple(dict.fromkeys((*self.assumes, *what)))
        return Work(self.flops, self.moved_bytes, self.exp_count, self.link_bytes, self.network_bytes, words)

    def __add__(self, other: Work) -> Work:
        return Work(
            _sum(self.flops, other.flops), self.moved_bytes + other.moved_bytes, self.exp_count + other.exp_count,
            self.link_bytes + other.link_bytes, self.network_bytes + other.network_bytes,
            tuple(dict.fromkeys((*self.assumes, *other.assumes))) if other.assumes else self.assumes,
        )  # fmt: skip

    def times(self, count: float) -> Work:
        """The same work `count` times, such as in each of as many layers."""
        return Work(
            tuple((p, f * count) for p, f in self.flops if f * count), self.moved_bytes * count,
            self.exp_count * count, self.link_bytes * count, self.network_bytes * count, self.assumes,
        )  # fmt: skip


def _sum(
    one: tuple[tuple[Precision, float], ...], other: tuple[tuple[Precision, float], ...]
) -> tuple[tuple[Precision, float], ...]:
    if not one or not other:
        return one or other
    both = dict(one)
    for precision, flop in other:
        both[precision] = both.get(precision, 0.0) + flop
    if len(both) == 1:
        return tuple((p, f) for p, f in both.items() if f)
    return tuple((p, f) for p in PRECISIONS if (f := both.get(p, 0.0)))


def total(works: Iterable[Work]) -> Work:
    return reduce(add, works, Work())
