"""Latencies of single requests of both arms, as quantiles: what a report draws. Blocks decide, these do not.

    spreads({"present": [Timing(True, 81e6, 24e6), …], "candidate": […]})
    (Spread("ttft_ns", "present", requests_count=420, failed_count=0, quantiles_ns=(31e6, 33e6, …)), …)

Both arms got the same requests, in turn; those of one block met the same engine, so they are not so many observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

Arm = Literal["present", "candidate"]
METRICS: Final = ("ttft_ns", "itl_mean_ns")
SHARES: Final = tuple(n / 100 for n in range(101))      # at which quantiles are kept: what a figure can show


@dataclass(frozen=True, slots=True)
class Timing:
    """One request. None is what nobody saw, of a failed one all."""

    ok: bool
    ttft_ns: float | None
    itl_mean_ns: float | None        # of its gaps between reads with output; None below two


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one metric in one arm, over all pairs."""

    metric: str
    arm: Arm
    requests_count: int              # with a value
    failed_count: int                # without any, since they failed
    quantiles_ns: tuple[float, ...]  # at SHARES; empty where no request has a value


def spreads(by_arm: Mapping[Arm, Sequence[Timing]]) -> tuple[Spread, ...]:
    """Metric by metric. Empty where nothing was asked."""
    return tuple(_spread(metric, arm, timings) for metric in METRICS for arm, timings in by_arm.items() if timings)


def _spread(metric: str, arm: Arm, timings: Sequence[Timing]) -> Spread:
    values = [v for v in (getattr(t, metric) for t in timings if t.ok) if v is not None]
    found = tuple(float(round(q)) for q in np.quantile(values, SHARES)) if values else ()
    return Spread(metric, arm, len(values), sum(not t.ok for t in timings), found)
