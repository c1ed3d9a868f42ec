"""When each request was served → the measures that predictions and recordings share.

    of_ran(ran, asks, delay_ns) → Timed           from virtual time
    of_run(open_run(folder)) → Timed              from a recording
    measures(timed)                               {"ttft_p50_ns": 48e6, …, "output_tokens_per_s": 312.0}

Both by the same definitions: a request begins when the frontend has it (or, unseen, when it is queued), a token is
there when its step has ended. TPOT is a request's mean gap between tokens, ITL are all gaps of all requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.core.units import S_NS
from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.run import Ran
from pellucid.sim.step.seen import Floats
from pellucid.store.read import RunReader

LATENCIES = ("ttft_mean_ns", "ttft_p50_ns", "ttft_p95_ns", "tpot_mean_ns", "tpot_p95_ns", "itl_mean_ns", "itl_p95_ns",
             "e2e_mean_ns", "e2e_p50_ns", "e2e_p95_ns")  # fmt: skip
MEASURES = (*LATENCIES, "output_tokens_per_s", "requests_per_s")

_REQUESTS = """
SELECT process, request, coalesce(arrival_ns, submitted_ns, queued_ns) AS arrived_ns, first_token_ns, last_token_ns,
       output_tokens
FROM requests
WHERE first_token_ns IS NOT NULL AND last_token_ns IS NOT NULL AND output_tokens > 0 AND finish_ns IS NOT NULL
      AND coalesce(arrival_ns, submitted_ns, queued_ns) IS NOT NULL
ORDER BY arrived_ns
"""
_GAPS = """
SELECT r.process, r.request, end_ns - lag(end_ns) OVER (PARTITION BY r.process, r.request ORDER BY s.step) AS gap_ns
FROM step_requests r JOIN steps s USING (process, step)
WHERE r.output_tokens > 0
QUALIFY gap_ns IS NOT NULL
ORDER BY r.process, r.request, s.step
"""


@dataclass(frozen=True, slots=True)
class Timed:
    """Of requests that were served to their end; a row each, in order of arrival."""

    arrived_ns: Floats
    first_ns: Floats
    last_ns: Floats
    tokens: Floats
    gaps_ns: tuple[Floats, ...]        # of each, between its tokens

    def __len__(self) -> int:
        return len(self.arrived_ns)


def of_ran(ran: Ran, asks: Sequence[Ask], delay_ns: float = 0.0) -> Timed:
    """`delay_ns`: from the frontend's arrival to the queue, which a schedule knows nothing of."""
    served = sorted(ran.served, key=lambda s: s.arrived_ns)
    ends = ran.ends_ns
    last = [s.token_steps[-1][1] for s in served]
    gaps = [_gaps(ends, s.token_steps) for s in served]
    return Timed(
        np.array([s.arrived_ns - delay_ns for s in served], dtype=np.float64),
        ends[[s.first_token_step for s in served]].astype(np.float64) if served else np.zeros(0),
        ends[last].astype(np.float64) if served else np.zeros(0),
        np.array([max(1, asks[s.ask].output_tokens) for s in served], dtype=np.float64),
        tuple(gaps),
    )


def _gaps(ends: np.ndarray[tuple[int, ...], np.dtype[np.int64]], stretches: tuple[tuple[int, int], ...]) -> Floats:
    steps = np.concatenate([np.arange(first, last + 1) for first, last in stretches])
    return np.asarray(np.diff(ends[steps]), dtype=np.float64)


def of_run(run: RunReader) -> Timed:
    rows, gaps = run.rows(_REQUESTS), dict[tuple[str, int], list[float]]()
    for row in run.rows(_GAPS):
        gaps.setdefault((row["process"], row["request"]), []).append(row["gap_ns"])
    arrived, first, last, tokens = (np.array([row[name] for row in rows], dtype=np.float64) for name in
                                    ("arrived_ns", "first_token_ns", "last_token_ns", "output_tokens"))  # fmt: skip
    own = tuple(np.array(gaps.get((row["process"], row["request"]), ()), dtype=np.float64) for row in rows)
    return Timed(arrived, first, last, tokens, own)


def measures(timed: Timed) -> dict[str, float | None]:
    """None where nobody has such a thing: no gaps where all answers are one token long."""
    if not len(timed):
        return dict.fromkeys(MEASURES)
    ttft, e2e = timed.first_ns - timed.arrived_ns, timed.last_ns - timed.arrived_ns
    longer = timed.tokens > 1
    tpot = (timed.last_ns - timed.first_ns)[longer] / (timed.tokens[longer] - 1)
    gaps = np.concatenate(timed.gaps_ns)
    span_s = float(timed.last_ns.max() - timed.arrived_ns.min()) / S_NS
    return {
        "ttft_mean_ns": _mean(ttft), "ttft_p50_ns": _quantile(ttft, 0.5), "ttft_p95_ns": _quantile(ttft, 0.95),
        "tpot_mean_ns": _mean(tpot), "tpot_p95_ns": _quantile(tpot, 0.95),
        "itl_mean_ns": _mean(gaps), "itl_p95_ns": _quantile(gaps, 0.95),
        "e2e_mean_ns": _mean(e2e), "e2e_p50_ns": _quantile(e2e, 0.5), "e2e_p95_ns": _quantile(e2e, 0.95),
        "output_tokens_per_s": float(timed.tokens.sum()) / span_s, "requests_per_s": len(timed) / span_s,
    }  # fmt: skip


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: Floats, of: float) -> float | None:
    return float(np.quantile(values, of)) if len(values) else None
