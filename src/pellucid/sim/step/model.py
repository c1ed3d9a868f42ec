"""The duration of a step, as a fit knows it: planned step → ns, with what scatters about it and how far it may be off.

    model.usual_ns(planned)                 of a step like this one
    time = model.drawn(seed=1)              a StepTime: that, times what some step of its kind was off by
    model.off(0.9, 500)                     Off(low=0.97, high=1.06): by so much whole stretches were off
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pellucid.sim.engine.schedule import Planned
from pellucid.sim.step.features import NAMES, columns, matrix
from pellucid.sim.step.scatter import Scatter
from pellucid.sim.step.seen import Floats, Steps

Bools = npt.NDArray[np.bool_]
DRAWS = 8192
LEAST_STRETCHES = 20      # the fewest that reach 90 %


@dataclass(frozen=True, slots=True)
class Range:
    """What the fit has seen of one quantity."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Off:
    """Time measured over time said, of stretches that were not fitted on."""

    low: float
    high: float
    level: float                       # reached: fewer stretches than a level needs reach less
    stretches_count: int
    stretch_steps: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Of NAMES in ns, none below 0. The same twice where one kind was hardly seen."""

    plain: Floats                      # of steps of decodes alone
    mixed: Floats                      # of steps with a chunk

    def said(self, x: Floats, mixed: Bools) -> Floats:
        return np.where(mixed, x @ self.mixed, x @ self.plain)


@dataclass(frozen=True, slots=True)
class StepModel:
    weights: Weights
    plain: Scatter                     # of steps of decodes alone, not fitted on
    mixed: Scatter                     # of steps with a chunk
    measured_ns: Floats                # of every step, in order of time, and what to expect by a model not fitted on it
    said_ns: Floats
    ranges: tuple[Range, ...]
    _tokens_ns: dict[tuple[bool, int], float] = field(default_factory=dict, compare=False)

    @property
    def steps_count(self) -> int:
        return len(self.measured_ns)

    @property
    def alone_ns(self) -> float:
        """More that a step takes with none right before it: such a step has a prompt in it."""
        return float(self.weights.mixed[NAMES.index("alone")])

    def usual_ns(self, planned: Planned) -> float:
        mixed, tokens, decodes = bool(planned.chunks), planned.tokens, planned.decodes_count
        w = self.weights.mixed if mixed else self.weights.plain
        found = self._tokens_ns.get((mixed, tokens))
        if found is None:
            found = self._tokens_ns[mixed, tokens] = self._of_tokens(tokens, w)
        if not mixed:
            return found + float(w[2]) * decodes + float(w[3]) * planned.decode_context_tokens
        pairs = sum(c.tokens * (c.context_tokens - (c.tokens - 1) / 2) for c in planned.chunks)
        context = sum(c.context_tokens for c in planned.chunks)
        return float(found + w[1] + w[2] * (decodes + len(planned.chunks)) + w[3] * planned.decode_context_tokens
                     + w[4] * pairs + w[5] * context)  # fmt: skip

    def of_seen(self, steps: Steps) -> Floats:
        """The same of recorded steps."""
        return self.weights.said(columns(steps), steps.chunks_count > 0)

    def expected_ns(self, steps: Steps) -> Floats:
        """Of recorded steps, with what such steps are off by on average: sums of these are totals."""
        usual = self.of_seen(steps)
        return usual * np.where(steps.chunks_count > 0, self.mixed.mean(usual), self.plain.mean(usual))

    @staticmethod
    def _of_tokens(tokens: int, weights: Floats) -> float:
        one, none = np.array([float(tokens)]), np.zeros(1)
        return float((matrix(one, none, none, none, none, none, none) @ weights)[0])

    def drawn(self, seed: int, times: float = 1.0) -> Callable[[Planned], float]:
        """Each step is off by as much as some step of its kind and size was. `times`: all are slower by this factor."""
        pick = np.random.default_rng(seed)
        kinds = (self.plain, self.mixed)
        drawn: tuple[list[Iterator[float]], ...] = tuple([iter(()) for _ in scatter.pools] for scatter in kinds)

        def step_ns(planned: Planned) -> float:
            usual, kind = self.usual_ns(planned), bool(planned.chunks)
            pool = kinds[kind].pool(usual)
            off = next(drawn[kind][pool], None)
            if off is None:
                drawn[kind][pool] = iter(pick.choice(kinds[kind].pools[pool], DRAWS).tolist())
                off = next(drawn[kind][pool])
            return max(1.0, usual * off * times)

        return step_ns

    def off(self, level: float, steps_count: int) -> Off:
        """How far a stretch of so many steps may be off on the whole, by split conformal prediction (Lei et al. 2018):
        of n stretches that were not fitted on, the k-th smallest and the k-th largest ratio of sums,
        k = (1 − level) / 2 · (n + 1). Stretches are as long as what is predicted, as far as there are twenty."""
        length = max(1, min(steps_count, len(self.said_ns) // LEAST_STRETCHES))
        parts = np.array_split(np.arange(len(self.said_ns)), max(1, len(self.said_ns) // length))
        ordered = np.sort([self.measured_ns[p].sum() / self.said_ns[p].sum() for p in parts])
        n = len(ordered)
        k = max(1, math.floor((1 - level) / 2 * (n + 1)))
        return Off(float(ordered[k - 1]), float(ordered[n - k]), min(level, 1 - 2 * k / (n + 1)), n, length)

    def outside(self, planned: Planned) -> str:
        """The first quantity of a step that lies beyond what was seen; "" where none does."""
        values = (planned.tokens, planned.decodes_count + len(planned.chunks),
                  planned.decode_context_tokens, planned.chunk_tokens)  # fmt: skip
        return next((r.name for r, v in zip(self.ranges, values, strict=True) if v > r.high), "")
