"""What single steps were off by, kept by the size of a step: short ones are off by more of themselves than long ones.

    scatter = Scatter.of(said_ns, measured_ns / said_ns)
    scatter.mean(usual_ns)          what steps of this size are off by on average
    scatter.pool(usual_ns)          which of `pools` a step of this size draws from
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from pellucid.sim.step.seen import Floats

LEAST = 30          # chosen: steps of a pool
MOST_POOLS = 4


@dataclass(frozen=True, slots=True)
class Scatter:
    edges_ns: tuple[float, ...]        # between pools, rising
    pools: tuple[Floats, ...]          # measured over said
    means: Floats                      # of each pool: measured in all over said in all

    @classmethod
    def of(cls, said_ns: Floats, ratio: Floats) -> Scatter:
        count = max(1, min(MOST_POOLS, len(ratio) // LEAST))
        order = np.argsort(said_ns, kind="stable")
        parts = np.array_split(order, count)
        pools = tuple(ratio[part] for part in parts)
        means = [float((ratio[p] * said_ns[p]).sum() / said_ns[p].sum()) for p in parts]
        return cls(tuple(float(said_ns[part[0]]) for part in parts[1:]), pools, np.array(means))

    def pool(self, usual_ns: float) -> int:
        return bisect_right(self.edges_ns, usual_ns)

    def mean(self, usual_ns: Floats) -> Floats:
        """Of steps as they usually are: sums of the product are totals."""
        return np.asarray(self.means[np.searchsorted(self.edges_ns, usual_ns, side="right")])
