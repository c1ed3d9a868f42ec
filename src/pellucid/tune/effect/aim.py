"""What a candidate is tried for, and what must not suffer from it.

    Aim(goal="output_tokens_per_s", guards=(Guard("ttft_p95_ns", margin_ratio=0.10),))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.core.errors import AskedWrongly
from pellucid.tune.effect.pairs import DIRECTIONS


@dataclass(frozen=True, slots=True)
class Guard:
    """A metric that may become worse by the margin and no more: `better` needs it shown, not only not refuted."""

    metric: str
    margin_ratio: float = 0.10      # chosen: what a tail of blocks of 10 s can be held to within minutes

    def __post_init__(self) -> None:
        _refuse(self.metric, self.margin_ratio)


@dataclass(frozen=True, slots=True)
class Aim:
    """One metric to improve, and guards."""

    goal: str = "output_tokens_per_s"
    margin_ratio: float = 0.03      # chosen: a difference smaller than this is none to somebody who serves
    guards: tuple[Guard, ...] = ()

    def __post_init__(self) -> None:
        _refuse(self.goal, self.margin_ratio)

    def margins(self) -> Iterator[tuple[str, float]]:
        """Each metric with its margin, the goal first."""
        yield self.goal, self.margin_ratio
        for guard in self.guards:
            yield guard.metric, guard.margin_ratio


def _refuse(metric: str, margin_ratio: float) -> None:
    if metric not in DIRECTIONS:
        raise AskedWrongly(f"metric {metric!r}: no block has it. Known: {', '.join(DIRECTIONS)}")
    if not 0 < margin_ratio < 1:
        raise AskedWrongly(f"margin of {metric} is {margin_ratio}. Give a ratio between 0 and 1, such as 0.05 for 5 %")
