"""A part of a step, and sums over parts.

    StepPart("moe.experts", "moe_gemm", calls_count=48, work=Work(…))      of all 48 layers together
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.physics.work import Work, total


@dataclass(frozen=True, slots=True)
class StepPart:
    part: str                      # what the model asks for: attention.full, mlp.down
    kernel_class: str              # a category of the kernel classification: gemm, attention, norm
    calls_count: int               # how many times, over the layers
    work: Work                     # of all of them


def merged(parts: Iterable[StepPart]) -> tuple[StepPart, ...]:
    """Parts of the same name and class in one, in the order they first come."""
    found: dict[tuple[str, str], StepPart] = {}
    for p in parts:
        key = (p.part, p.kernel_class)
        before = found.get(key)
        found[key] = p if before is None else StepPart(
            p.part, p.kernel_class, before.calls_count + p.calls_count, before.work + p.work)  # fmt: skip
    return tuple(found.values())


def times(parts: Iterable[StepPart], count: int) -> list[StepPart]:
    return [StepPart(p.part, p.kernel_class, p.calls_count * count, p.work.times(count)) for p in parts]


def by_class(parts: Iterable[StepPart]) -> dict[str, Work]:
    """Sums by kernel class."""
    found: dict[str, Work] = {}
    for p in parts:
        found[p.kernel_class] = found.get(p.kernel_class, Work()) + p.work
    return found


def step_total(parts: Iterable[StepPart]) -> Work:
    return total(p.work for p in parts)
