"""Goodput under a user's limits, of what was measured and of what is predicted, by one definition.

    goodput_of(read_slo("ttft_p95<2s"))(timed)      {"goodput_per_s": 1.9}
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.core.units import S_NS
from pellucid.sim.outcome import Timed
from pellucid.sim.predict import Also, Measured
from pellucid.tune.slo import Request, Slo, goodput

NAME = "goodput_per_s"


def goodput_of(slo: Slo) -> Also:
    """Nothing to measure without limits."""

    def also(timed: Timed) -> Measured:
        return {NAME: good_per_s(slo, timed, requests_of(timed))} if slo else {}

    return also


def good_per_s(slo: Slo, timed: Timed, requests: Sequence[Request]) -> float | None:
    """`requests`: those of `timed`. None where nobody was served."""
    if not requests:
        return None
    return goodput(slo, requests, float(timed.last_ns.max() - timed.arrived_ns.min()) / S_NS).good_per_s


def requests_of(timed: Timed) -> list[Request]:
    return [
        Request(True, int(first - came), int(last - came), tuple(map(int, gaps)))
        for came, first, last, gaps in zip(timed.arrived_ns, timed.first_ns, timed.last_ns, timed.gaps_ns, strict=True)
    ]
