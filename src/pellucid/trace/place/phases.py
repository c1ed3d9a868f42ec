"""The phase of each step: prefill, decode or mixed, where neither the engine nor its ranges told.

By the shapes of operators, where they were recorded:

    tokens   T   rows of the lookup of embeddings        requests   B   rows of the product with the largest matrix, the
                                                                        head: one row is sampled for each request

    step    T      B    what follows
    0       8000   8    nobody could decode yet: prefill
    1       16384  25   the 8 of before go on, so 8 decode and 17 prompts are computed: mixed
    2       64     64   a token for each request: decode

If those of before would leave no room for the tokens that are there, they were through: prefill. Without shapes by
what attention kernels are made for, and by a device graph that holds a whole step: engines capture decodes so, and
prompts of any length not. What neither tells is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signs:
    """What a step's kernels and operators show. None is not shown."""

    tokens: int | None = None
    requests: int | None = None
    sequence_tokens: int | None = None      # for each request, where the lookup has a row for each
    hints: Mapping[str, int] = field(default_factory=dict)   # phase attention kernels are made for → time in them
    graph: str | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    name: str | None
    basis: str | None           # shapes or kernels
    prefills: int | None = None
    decodes: int | None = None


def phases(signs: Sequence[Signs]) -> list[Phase]:
    out: list[Phase] = []
    before: Signs | None = None
    decoded = 0                 # requests of the step before that decoded in it
    for seen in signs:
        phase = _by_shapes(seen, before, decoded)
        if phase is None:
            phase = _by_kernels(seen)
        out.append(phase)
        if seen.requests:
            before, decoded = seen, phase.decodes or 0
    return out


def _by_shapes(seen: Signs, before: Signs | None, decoded: int) -> Phase | None:
    """None where the shapes are not known, or do not tell."""
    if seen.sequence_tokens is not None:     # a batch in which all compute the same number
        if seen.sequence_tokens == 1:
            return Phase("decode", "shapes", 0, seen.requests)
        return Phase("prefill", "shapes", seen.requests, 0)
    if seen.tokens is None or not seen.requests:
        return None
    if seen.tokens == seen.requests:
        return Phase("decode", "shapes", 0, seen.requests)
    if seen.tokens < seen.requests:
        return None                          # more than the last rows were sampled from
    carried = 0 if before is None else _carried(before, decoded)
    for decodes in (carried, carried - 1):   # the last prompt of a full step may be there in part only
        if 0 < decodes < seen.requests:
            return Phase("mixed", "shapes", seen.requests - decodes, decodes)
    return Phase("prefill", "shapes", seen.requests, 0)


def _carried(before: Signs, decoded: int) -> int:
    """Requests that decode next if none of them is through: those that decoded, and those whose prompt was computed."""
    return max(before.requests or 0, decoded)


def _by_kernels(seen: Signs) -> Phase:
    told = {name for name, time in seen.hints.items() if time and name in ("prefill", "decode")}
    if told == {"prefill", "decode"}:
        return Phase("mixed", "kernels")
    if told == {"decode"} or (not told and seen.graph == "full"):
        return Phase("decode", "kernels", 0, seen.requests)
    return Phase("prefill", "kernels", seen.requests, 0) if told else Phase(None, None)


def agree(ours: Iterable[str | None], theirs: Iterable[str | None], times_ns: Iterable[int]) -> float:
    """Share of the time whose phases are the same, of that with a phase in `theirs`."""
    told = [(a == b, time) for a, b, time in zip(ours, theirs, times_ns, strict=True) if b is not None]
    return sum(time for same, time in told if same) / sum(time for _, time in told)
