"""What the engine was doing, in one row: for the verdict's sentence and for readers who want the context.

    load_of(evidence, span)["output_tokens_per_s"]

Aggregates over `steps` and `requests` of the span; null where a fact was not seen: where a run has no row of
`requests` at all, nobody knows how many there were. No judgement.
"""

from __future__ import annotations

from pellucid.diagnose.evidence import Evidence
from pellucid.diagnose.rule import Need, Row, Value
from pellucid.diagnose.span_of.steps import Span
from pellucid.store.read import RunReader

NEEDS = (
    Need("steps", (), "", ("start_ns", "end_ns", "running_count", "waiting_count", "waiting_kv_count", "output_tokens",
                           "kv_used_blocks_count", "kv_total_blocks_count", "preempted_count")),
    Need("requests", (), "", ("arrival_ns", "queued_ns", "scheduled_ns", "first_token_ns", "first_delivered_ns",
                              "last_token_ns", "output_tokens", "finish_reason")),
)  # fmt: skip
STEPS = """
    WITH s AS (SELECT *, end_ns - start_ns AS step_ns FROM _all_steps)
    SELECT count(*)                                                     AS steps_count,
           sum(step_ns)::BIGINT                                         AS busy_ns,
           sum(running_count * step_ns) / sum(step_ns)                  AS running_mean_count,
           max(running_count)                                           AS running_max_count,
           max(waiting_count)                                           AS waiting_max_count,
           sum(step_ns) FILTER (waiting_count > 0) / sum(step_ns)       AS waiting_time_ratio,
           sum(step_ns) FILTER (waiting_kv_count > 0) / sum(step_ns)    AS waiting_kv_time_ratio,
           max(kv_used_blocks_count / kv_total_blocks_count)            AS kv_used_max_ratio,
           sum(output_tokens)::BIGINT                                   AS output_tokens,
           sum(preempted_count)::BIGINT                                 AS preempted_count
    FROM s
"""
REQUESTS = """
    SELECT count(*)                                                AS requests_count,
           count(*) FILTER (finish_reason = 'abort')               AS aborted_count,
           count(*) FILTER (finish_reason IS NULL)                 AS unfinished_count,
           avg(scheduled_ns - queued_ns)                           AS queue_mean_ns,
           avg(first_delivered_ns - arrival_ns)                    AS ttft_mean_ns,
           avg((last_token_ns - first_token_ns) / (output_tokens - 1)) FILTER (output_tokens > 1) AS itl_mean_ns
    FROM _all_requests
"""


def load_of(evidence: Evidence, span: Span, requests_seen: bool) -> dict[str, Value]:
    """`requests_seen`: the run has rows of `requests`, in this span or not."""
    steps = evidence.rows(STEPS)[0]
    if steps["waiting_max_count"] is not None:   # seen: then nobody waiting is zero, not unknown
        steps["waiting_time_ratio"] = steps["waiting_time_ratio"] or 0.0
        steps["waiting_kv_time_ratio"] = steps["waiting_kv_time_ratio"] or 0.0
    return _whole(span.end_ns - span.start_ns, steps, evidence, requests_seen)


def expired_load(run: RunReader, evidence: Evidence, requests_seen: bool) -> dict[str, Value]:
    """The same of a run whose steps have expired, and their times, from what is kept by the minute; else nothing."""
    kept = run.rows("SELECT * EXCLUDE (start_ns, end_ns), end_ns - start_ns AS span_ns FROM expired_load")
    return _whole(kept[0].pop("span_ns"), Row(kept[0]), evidence, requests_seen) if kept else {}


def _whole(span_ns: int, steps: Row, evidence: Evidence, requests_seen: bool) -> dict[str, Value]:
    requests = evidence.rows(REQUESTS)[0]
    if not requests_seen:
        requests = Row(dict.fromkeys(requests))
    output, busy_ns = steps["output_tokens"], steps["busy_ns"]
    rate = None if output is None or not busy_ns else output * 1e9 / busy_ns
    return {"span_ns": span_ns, **steps, "output_tokens_per_s": rate, **requests}
