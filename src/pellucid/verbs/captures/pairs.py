"""Kernels of two captures → which of them are the same work under one name, or under two.

    pairs(a, b) → [Pair(a=("gemm", "sm80_gemm"), b=("gemm", "sm90_gemm"), by="place"), …]

A name that is on both sides is the same kernel. Of the others, two are taken for the same work if they are of one class
and stand in the same places of the model's layers (the n-th of their class), or if one operator launched both and no
other kernel of the class is left that it could have been. What is left over was added or removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]               # class and name
Match = tuple[Key, Key, str]
Shares = Mapping[object, float]     # place or operator → part of the kernel's executions; they add up to 1 or less

# Chosen: half of both kernels' executions stand in places that they share. Below it, what they share is chance.
LEAST_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class Kernels:
    """Of one side."""

    counts: Mapping[Key, float]                             # executions, in a step or in the whole
    places: Mapping[Key, Shares] = field(default_factory=dict)
    ops: Mapping[Key, Shares] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    a: Key | None                   # None: added
    b: Key | None                   # None: removed
    by: str                         # name, place, op, added or removed


def pairs(a: Kernels, b: Kernels) -> list[Pair]:
    found = [Pair(key, key, "name") for key in a.counts if key in b.counts]
    left_a = [key for key in a.counts if key not in b.counts]
    left_b = [key for key in b.counts if key not in a.counts]
    for step in (_by_name(left_a, left_b), _by_place(a, b, left_a, left_b), _by_op(a, b, left_a, left_b)):
        for x, y, by in step:       # each step looks at what the one before it left
            found.append(Pair(x, y, by))
            left_a.remove(x)
            left_b.remove(y)
    return [*found, *(Pair(key, None, "removed") for key in left_a), *(Pair(None, key, "added") for key in left_b)]


def _by_name(left_a: list[Key], left_b: list[Key]) -> Iterator[Match]:
    """The same name under another class: the operator that launched it decided there, and is not told here."""
    named = {key[1]: key for key in left_b}
    for key in list(left_a):
        if key[1] in named:
            yield key, named.pop(key[1]), "name"


def _by_place(a: Kernels, b: Kernels, left_a: list[Key], left_b: list[Key]) -> Iterator[Match]:
    """Those that share most places first; of equals, those that run about as often."""
    scores = []
    for x in left_a:
        for y in left_b:
            if x[0] == y[0] and (shared := overlap(a.places.get(x, {}), b.places.get(y, {}))) >= LEAST_OVERLAP:
                scores.append((-shared, abs(a.counts[x] - b.counts[y]), x, y))
    taken: set[tuple[str, Key]] = set()
    for _, _, x, y in sorted(scores):
        if ("a", x) not in taken and ("b", y) not in taken:
            taken |= {("a", x), ("b", y)}
            yield x, y, "place"


def _by_op(a: Kernels, b: Kernels, left_a: list[Key], left_b: list[Key]) -> Iterator[Match]:
    """An operator launches many kernels: only where there is one choice on both sides."""
    fits_a: dict[Key, list[Key]] = defaultdict(list)
    fits_b: dict[Key, list[Key]] = defaultdict(list)
    for x in left_a:
        for y in left_b:
            if x[0] == y[0] and overlap(a.ops.get(x, {}), b.ops.get(y, {})) >= LEAST_OVERLAP:
                fits_a[x].append(y)
                fits_b[y].append(x)
    for x, found in list(fits_a.items()):
        if len(found) == 1 == len(fits_b[found[0]]):
            yield x, found[0], "op"


def overlap(a: Shares, b: Shares) -> float:
    """Part of both that stands in places they share, 0 to 1."""
    return sum(min(part, b[place]) for place, part in a.items() if place in b)
