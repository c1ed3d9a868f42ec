"""What boards drew while steps ran → joules of a played workload.

    energy = fit_energy(drawn(run))            None where no board's energy was recorded
    energy.joules(span_s, busy_s, tokens)      idle power, power at work, and what each token costs on top
    token_joules(run)                          measured: from the first arrival to the last token

A board at work draws more than one at rest, and one that multiplies more than one that reads: so much for a second, so
much for a second of steps, so much for a computed token, none below 0. Between two samples of the boards' own energy
counters the time in steps and the tokens are known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.optimize import nnls

from pellucid.core.units import S_NS
from pellucid.sim.step.seen import Floats
from pellucid.store.read import RunReader

JOULES = "output_token_joules"
LEAST = 8               # chosen: intervals between samples, for three weights and how far they are off
TAIL = 0.05             # of intervals on either side that an interval need not hold
EDGE = 0.2              # chosen: of the requests' span; so far apart may samples about its begin and end be
LONG_S = 3.0            # chosen: samples come each second; over a longer gap nobody knows what was drawn when

# All boards at once: where one has no sample, the sum is not theirs.
_COUNTERS = """
SELECT time_ns, sum(energy_joules) AS joules FROM gpu WHERE energy_joules IS NOT NULL
GROUP BY time_ns HAVING count(*) = (SELECT count(DISTINCT device) FROM gpu) ORDER BY time_ns
"""
# Steps that overlap count from where the one before ended.
_STEPS = """
SELECT greatest(start_ns, coalesce(lag(end_ns) OVER (ORDER BY end_ns), start_ns)) AS start_ns, end_ns, scheduled_tokens
FROM steps ORDER BY end_ns
"""
_SPAN = """
SELECT min(coalesce(arrival_ns, submitted_ns, queued_ns)) AS start_ns, max(last_token_ns) AS end_ns,
       sum(output_tokens) AS tokens
FROM requests WHERE finish_ns IS NOT NULL AND output_tokens > 0 AND last_token_ns IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Between two samples each."""

    span_s: Floats
    busy_s: Floats
    tokens: Floats
    joules: Floats


@dataclass(frozen=True, slots=True)
class Energy:
    idle_watts: float
    work_watts: float                  # on top of that, while steps run
    token_joules: float
    low: float                         # measured over said, of intervals that were not fitted on
    high: float

    def joules(self, span_s: float, busy_s: float, tokens: float) -> float:
        return self.idle_watts * span_s + self.work_watts * busy_s + self.token_joules * tokens


def drawn(run: RunReader) -> Drawn:
    counters, steps = run.rows(_COUNTERS), run.rows(_STEPS)
    if len(counters) < 2 or not steps:
        return Drawn(*(np.zeros(0) for _ in range(4)))
    times = np.array([row["time_ns"] for row in counters], np.float64)
    joules = np.array([row["joules"] for row in counters], np.float64)
    edges = np.array([(row["start_ns"], row["end_ns"]) for row in steps], np.float64)
    busy = _until(times, edges, edges[:, 1] - edges[:, 0])
    tokens = _until(times, edges, np.array([row["scheduled_tokens"] or 0 for row in steps], np.float64))
    span_s = np.diff(times) / S_NS
    good = (span_s > 0) & (span_s < LONG_S)
    return Drawn(span_s[good], (np.diff(busy) / S_NS)[good], np.diff(tokens)[good], np.diff(joules)[good])


def all_drawn(parts: Sequence[Drawn]) -> Drawn:
    """Of several runs of one engine."""
    return Drawn(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Drawn)))


def fit_energy(seen: Drawn) -> Energy | None:
    if len(seen.joules) < LEAST:
        return None
    x = np.column_stack([seen.span_s, seen.busy_s, seen.tokens])
    ratios = []
    for k in range(len(x)):
        rest = np.arange(len(x)) != k
        said = float(x[k] @ _weights(x[rest], seen.joules[rest]))
        if said > 0:
            ratios.append(float(seen.joules[k]) / said)
    if not ratios:
        return None
    low, high = np.quantile(ratios, (TAIL, 1 - TAIL))
    rest_w, work_w, token_j = _weights(x, seen.joules).tolist()
    return Energy(rest_w, work_w, token_j, float(min(low, 1.0)), float(max(high, 1.0)))


def token_joules(run: RunReader) -> float | None:
    """Null where the counters do not span the requests, or have no sample near their begin or end."""
    counters, span = run.rows(_COUNTERS), run.one(_SPAN)
    if len(counters) < 2 or span["start_ns"] is None or not span["tokens"]:
        return None
    times = np.array([row["time_ns"] for row in counters], np.float64)
    if not times[0] <= span["start_ns"] < span["end_ns"] <= times[-1]:
        return None
    edges = np.searchsorted(times, [span["start_ns"], span["end_ns"]])
    gap_ns = (times[edges] - times[np.maximum(edges - 1, 0)]).max()
    if gap_ns > max(LONG_S * S_NS, EDGE * (span["end_ns"] - span["start_ns"])):
        return None
    joules = np.array([row["joules"] for row in counters], np.float64)
    first, last = np.interp([span["start_ns"], span["end_ns"]], times, joules)
    return float(last - first) / float(span["tokens"])


def _until(times: Floats, edges: Floats, amounts: Floats) -> Floats:
    """How much of the amounts, spread evenly over their steps, lies before each time."""
    after = np.cumsum(amounts)
    knots = np.ravel(edges)
    return np.asarray(np.interp(times, knots, np.ravel(np.column_stack([after - amounts, after])), left=0.0))


def _weights(x: Floats, joules: Floats) -> Floats:
    size = x.mean(axis=0)
    size[size == 0] = 1.0
    found, _ = nnls(x / size, joules)
    return np.asarray(found / size)
