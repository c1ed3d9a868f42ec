"""What users of the engine are promised, as text → objectives; requests' own numbers → how many were within them.

    slo = read_slo("ttft_p95<2s,itl_p95<150ms")
    slo[0]                                  Objective("ttft", 0.95, "<", 2_000_000_000)
    within(slo, request)                    True · False · None where a number it needs was not seen
    goodput(slo, requests, 60.0)            Goodput(good_count=114, judged_count=120, unseen_count=0, good_per_s=1.9)
    read_goal("goodput", slo)               "goodput_per_s"

Goodput is requests completed per second that meet every limit, each by its own numbers, as in DistServe (Zhong et al.,
OSDI 2024), AIPerf (its page "Benchmark Goodput") and the engines' own benchmarks. The quantile of an objective is what
is asked of all requests together (`held`); one request is within `ttft_p95<2s` where its own TTFT is below 2 s, and
within `itl_p95<150ms` where the 95th percentile of its own gaps is below 150 ms.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import duration, parse_span_ns

Side = Literal["<", ">"]
LATENCIES = ("ttft", "tpot", "itl", "e2e")
ALSO = {"e2el": "e2e"}                          # as benchmarks spell it
BELOW = {"ttft": "e2e"}                         # the first is never more than the second, in any request
OBJECTIVE = re.compile(
    r"(?P<metric>[a-z0-9]+?)(?:_(?P<over>p\d{1,2}(?:\.\d+)?|mean|max))?(?P<side>[<>])=?(?P<limit>\S+)"
)
EXAMPLE = "Write it as ttft_p95<2s,itl_p95<150ms"


@dataclass(frozen=True, slots=True)
class Objective:
    metric: str                    # ttft, tpot, itl, e2e
    quantile: float | None         # over all requests (of itl: over all gaps); None is the mean
    side: Side
    limit_ns: int

    @property
    def name(self) -> str:
        """As the user writes it: ttft_p95."""
        if self.quantile is None:
            return f"{self.metric}_mean"
        return f"{self.metric}_max" if self.quantile == 1 else f"{self.metric}_p{self.quantile * 100:.10g}"

    @property
    def measure(self) -> str:
        """The measure of a block that it is about: ttft_p95_ns."""
        return f"{self.name}_ns"

    def __str__(self) -> str:
        return f"{self.name} {self.side} {duration(self.limit_ns)}"


Slo = tuple[Objective, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a client saw it."""

    ok: bool                                   # answered to its end, without an error
    ttft_ns: int | None
    e2e_ns: int | None
    gaps_ns: tuple[int, ...] | None            # between output tokens; empty with one token, None where not seen


@dataclass(frozen=True, slots=True)
class Goodput:
    good_count: int
    judged_count: int                          # failed ones in it: they are not good
    unseen_count: int                          # a number was missing: neither good nor bad
    good_per_s: float


# What can become more, and the measure of a block that it is.
GOALS = {"goodput": "goodput_per_s", "throughput": "output_tokens_per_s"}


def read_slo(text: str) -> Slo:
    """Raises AskedWrongly that names the part and what is wrong with it."""
    slo = tuple(_objective(part.strip()) for part in text.split(","))
    for one, other in itertools.combinations(slo, 2):
        if (one.metric, one.quantile, one.side) == (other.metric, other.quantile, other.side):
            raise AskedWrongly(f"--slo says {one.name} {one.side} twice: {one}, {other}. Keep one of them")
        for low, high in ((one, other), (other, one)):
            if _contradict(low, high):
                raise AskedWrongly(f"--slo cannot be met: {low} and {high} exclude each other. Take one of them out")
    return slo


def read_goal(name: str, slo: Slo) -> str:
    """The measure to maximise. Raises AskedWrongly for what cannot be, and for goodput without limits."""
    if name not in GOALS:
        raise AskedWrongly(f"--maximise {name}: known are {', '.join(GOALS)}")
    if name == "goodput" and not slo:
        raise AskedWrongly("--maximise goodput needs --slo: it counts the requests within it. "
                           "Try: --slo 'ttft_p95<2s,itl_p95<150ms'")  # fmt: skip
    return GOALS[name]


def within(slo: Slo, request: Request) -> bool | None:
    """A failed request is not. One token has no gaps, and so none that are too long."""
    if not request.ok:
        return False
    said = [_meets(objective, request) for objective in slo]
    if False in said:
        return False
    return None if None in said else True


def goodput(slo: Slo, requests: Sequence[Request], duration_s: float) -> Goodput:
    """Raises ValueError without a duration."""
    if not duration_s > 0:
        raise ValueError(f"goodput over {duration_s} s")
    said = [within(slo, request) for request in requests]
    good = said.count(True)
    return Goodput(good, good + said.count(False), said.count(None), good / duration_s)


def held(objective: Objective, requests: Sequence[Request]) -> bool | None:
    """Whether all requests together keep it; None where nothing was seen.

    Failed ones have no latency, and are left out here: errors are told apart from slowness.
    """
    value = overall_ns(objective, requests)
    return None if value is None else _on_side(value, objective)


def overall_ns(objective: Objective, requests: Sequence[Request]) -> float | None:
    seen = [v for r in requests if r.ok for v in _values(objective.metric, r) or ()]
    return _over(seen, objective.quantile)


def _objective(part: str) -> Objective:
    match = OBJECTIVE.fullmatch(part.replace(" ", ""))
    if match is None:
        raise AskedWrongly(f"--slo {part!r} is no limit. {EXAMPLE}")
    metric = ALSO.get(match["metric"], match["metric"])
    if metric not in LATENCIES:
        raise AskedWrongly(f"--slo {part!r}: {match['metric']} is not known; known are {', '.join(LATENCIES)}")
    over = match["over"]
    if over is None:
        asked = f"{metric}_p95{match['side']}{match['limit']}"
        raise AskedWrongly(f"--slo {part!r} does not say of which requests. Try: {asked}, or _mean, or _max")
    quantile = None if over == "mean" else 1.0 if over == "max" else float(over[1:]) / 100
    if quantile == 0:
        raise AskedWrongly(f"--slo {part!r}: no request is below p0. {EXAMPLE}")
    try:
        limit_ns = parse_span_ns(match["limit"])
    except ValueError as error:
        raise AskedWrongly(f"--slo {part!r}: {error}") from error
    if limit_ns <= 0:
        raise AskedWrongly(f"--slo {part!r}: nothing takes less than a nanosecond. {EXAMPLE}")
    return Objective(metric, quantile, "<" if match["side"] == "<" else ">", limit_ns)


def _contradict(low: Objective, high: Objective) -> bool:
    """Whether `low` asks for more than `high` allows.

    A quantile is at most a higher one; a mean is at most the maximum, and nothing else can be said of it.
    """
    if (low.side, high.side) != (">", "<") or low.limit_ns < high.limit_ns:
        return False
    if low.metric != high.metric and BELOW.get(low.metric) != high.metric:
        return False
    if low.quantile is None or high.quantile is None:
        return low.quantile == high.quantile or high.quantile == 1
    return low.quantile <= high.quantile


def _meets(objective: Objective, request: Request) -> bool | None:
    values = _values(objective.metric, request)
    if values is None:
        return None
    own = _over(values, objective.quantile)
    return True if own is None else _on_side(own, objective)


def _values(metric: str, request: Request) -> Sequence[float] | None:
    """Empty where the request has no such thing; None where it was not seen."""
    if metric in ("ttft", "e2e"):
        value = request.ttft_ns if metric == "ttft" else request.e2e_ns
        return None if value is None else (value,)
    if metric == "itl" or not request.gaps_ns:
        return request.gaps_ns
    return (math.fsum(request.gaps_ns) / len(request.gaps_ns),)


def _over(values: Sequence[float], quantile: float | None) -> float | None:
    if not len(values):
        return None
    return float(np.mean(values) if quantile is None else np.quantile(values, quantile))


def _on_side(value: float, objective: Objective) -> bool:
    return value < objective.limit_ns if objective.side == "<" else value > objective.limit_ns
