"""The least time of a step: its parts run one after another, each at its own roof.

    step_roof(step_work(geometry, batch), ceilings).time_ns        15.8 ms for 64 decodes of Qwen3-30B-A3B on an H200

Parts do not overlap here; where an engine overlaps them (wires beside products), it can be faster than this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.physics.ceilings import Ceilings
from pellucid.physics.roof import NoRoof, Roof, roof
from pellucid.physics.step.part import StepPart


@dataclass(frozen=True, slots=True)
class StepRoof:
    parts: tuple[tuple[StepPart, Roof], ...]

    @property
    def time_ns(self) -> float:
        return sum(found.time_ns for _, found in self.parts)

    @property
    def disputed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(doubt for _, found in self.parts for doubt in found.disputed))

    @property
    def assumes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(words for _, found in self.parts for words in found.assumes))

    def class_ns(self) -> dict[str, float]:
        """Least time by kernel class."""
        found: dict[str, float] = {}
        for part, of in self.parts:
            found[part.kernel_class] = found.get(part.kernel_class, 0.0) + of.time_ns
        return found


def step_roof(parts: Sequence[StepPart], ceilings: Ceilings) -> StepRoof | NoRoof:
    """NoRoof with the first part that has none."""
    found = []
    for part in parts:
        of = roof(part.work, ceilings)
        if isinstance(of, NoRoof):
            return NoRoof(f"{part.part}: {of.reason}")
        found.append((part, of))
    return StepRoof(tuple(found))
