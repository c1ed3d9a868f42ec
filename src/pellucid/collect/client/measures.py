"""Replies → what a client measured: latencies, throughput, faults, and whether the client itself was in the way.

    measured = measure(played.replies, played.duration_ns)
    measured.ttft_p95_ns, measured.output_tokens_per_s, measured.errors_count
    client_bound(played)       "" or the reason why nothing may be concluded from these numbers

TTFT runs from sending (the connection is opened then) to the first read with output. A gap lies between two reads with
output: tokens that come together are one arrival. TPOT is (last read − first read) ÷ (tokens − 1), for two tokens or
more; E2E ends with the connection. Only answers without a fault are measured; the others are counted.
Quantiles are interpolated between the two values next to them, as numpy does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np

from pellucid.collect.client.ask import Reply
from pellucid.collect.client.play import Played
from pellucid.core.units import MS_NS, S_NS, duration, percent

Number = TypeVar("Number", int, float)
QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)
LAG_QUANTILES: Final = (0.5, 0.9, 0.99)
# Below it a lag is the grain of the event loop's timers and of a machine that does other things too. Chosen: 1 ms is
# the timers' step, and on two shared cores 99 of 100 requests were at most 5 ms late (bench/loop/replay_lag.py).
GRAIN_NS: Final = 5 * MS_NS
# So much of the time by which the engine's load changes may a lag be. Chosen: it moves a queue by a tenth at most.
LAG_RATIO: Final = 0.1
# Above it, the loop is hardly ever waiting: times are when it came round, not when the engine answered. Chosen: a queue
# in front of a server that is 80 % busy is four services long (M/M/1).
BUSY_RATIO: Final = 0.8


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one block of traffic. None is what nobody saw."""

    output_tokens_per_s: float | None
    tpot_mean_ns: float | None
    ttft_p50_ns: float | None
    ttft_p95_ns: float | None
    itl_p95_ns: float | None
    e2e_p95_ns: float | None
    requests_count: int
    errors_count: int
    good_count: int | None         # within the SLO; None where there is none
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One request's own numbers."""

    ok: bool
    ttft_ns: int | None
    e2e_ns: int | None
    gaps_ns: tuple[int, ...] | None       # None where no output was seen
    tpot_ns: float | None


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of QUANTILES; None where no request had any."""

    ttft_ns: tuple[float, ...] | None
    tpot_ns: tuple[float, ...] | None
    itl_ns: tuple[float, ...] | None
    e2e_ns: tuple[float, ...] | None


def seen(reply: Reply) -> Seen:
    if not reply.ok or not reply.arrivals:
        return Seen(reply.ok, None, reply.end_ns - reply.sent_ns if reply.ok else None, None, None)
    times = [a.time_ns for a in reply.arrivals]
    tokens = reply.output_tokens
    tpot = (times[-1] - times[0]) / (tokens - 1) if tokens is not None and tokens > 1 else None
    gaps = tuple(b - a for a, b in pairwise(times))
    return Seen(True, times[0] - reply.sent_ns, reply.end_ns - reply.sent_ns, gaps, tpot)


def measure(
    replies: Sequence[Reply], duration_ns: int, good: Callable[[Seen], bool | None] | None = None
) -> Measures:
    """`good`: whether a request was within the SLO."""
    found = [seen(reply) for reply in replies]
    ttft, e2e = _known(s.ttft_ns for s in found), _known(s.e2e_ns for s in found)
    tpot, gaps = _known(s.tpot_ns for s in found), [g for s in found for g in s.gaps_ns or ()]
    counted = [r.output_tokens for r in replies if r.ok]
    per_s = None
    if counted and None not in counted and duration_ns > 0:
        per_s = sum(_known(counted)) * S_NS / duration_ns
    return Measures(
        per_s, float(np.mean(tpot)) if tpot else None, _quantile(ttft, 0.5), _quantile(ttft, 0.95),
        _quantile(gaps, 0.95), _quantile(e2e, 0.95), len(replies), sum(not s.ok for s in found),
        None if good is None else sum(good(s) is True for s in found), duration_ns,
    )  # fmt: skip


def latencies(replies: Iterable[Reply]) -> Latencies:
    found = [seen(reply) for reply in replies]
    return Latencies(
        quantiles(_known(s.ttft_ns for s in found), QUANTILES), quantiles(_known(s.tpot_ns for s in found), QUANTILES),
        quantiles([g for s in found for g in s.gaps_ns or ()], QUANTILES),
        quantiles(_known(s.e2e_ns for s in found), QUANTILES),
    )  # fmt: skip


def faults(replies: Iterable[Reply]) -> dict[str, tuple[int, str]]:
    """Kind → how many, and the words of the first; the most frequent first."""
    replies = list(replies)
    counts = Counter(r.fault for r in replies if r.fault)
    return {k: (n, next(r.error for r in replies if r.fault == k)) for k, n in counts.most_common()}


def client_bound(played: Played) -> str:
    """Why the client was the bottleneck, "" where it was not. A lag counts beside the mean gap and the median TTFT,
    whichever is longer: what is short beside them moves neither the load nor the queue."""
    ours = [r for r in played.replies if r.fault == "client"]
    if ours:
        return f"{len(ours)} requests found no socket on this side: {ours[0].error}. Try: ulimit -n, or a lower rate"
    if played.busy_ratio > BUSY_RATIO:
        return f"its event loop took {percent(played.busy_ratio)} of a core, above {percent(BUSY_RATIO)}"
    lags = quantiles([r.lag_ns for r in played.replies], (0.99,))
    limit_ns = lag_limit_ns(played)
    if lags is not None and lags[0] > limit_ns:
        return f"one request in a hundred went out {duration(lags[0])} late or more, above {duration(limit_ns)}"
    return ""


def lag_limit_ns(played: Played) -> float:
    ttft = quantiles(_known(seen(r).ttft_ns for r in played.replies), (0.5,))
    sent = [r.sent_ns for r in played.replies]
    gap_ns = (max(sent) - min(sent)) / (len(sent) - 1) if len(sent) > 1 else 0.0
    return max(GRAIN_NS, LAG_RATIO * max(gap_ns, ttft[0] if ttft else 0.0))


def quantiles(values: Sequence[float], at: Sequence[float]) -> tuple[float, ...] | None:
    return tuple(float(v) for v in np.quantile(values, at)) if len(values) else None


def _quantile(values: Sequence[float], at: float) -> float | None:
    found = quantiles(values, (at,))
    return None if found is None else found[0]


def _known(values: Iterable[Number | None]) -> list[Number]:
    return [v for v in values if v is not None]
