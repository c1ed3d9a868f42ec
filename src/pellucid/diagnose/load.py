"""What the engine was doing, in one row: for the verdict's sentence and for readers who want the context.

    load_of(run, span)["output_tokens_per_s"]

Aggregates over `steps` and `requests` of the span; null where a fact was not seen. No judgement.
"""

from __future__ import annotations

from pellucid.diagnose.rule import Value
from pellucid.diagnose.span import Span
from pellucid.store.read import RunReader

STEPS = """
    SELECT count(*)                                                               AS steps_count,
           sum(end_ns - start_ns)::BIGINT                                         AS busy_ns,
           sum(running_count * (end_ns - start_ns)) / sum(end_ns - start_ns)      AS running_mean_count,
           max(running_count)                                                     AS running_max_count,
           max(waiting_count)                                                     AS waiting_max_count,
           sum(end_ns - start_ns) FILTER (waiting_count > 0) / sum(end_ns - start_ns) AS waiting_time_ratio,
           sum(end_ns - start_ns) FILTER (waiting_kv_count > 0) / sum(end_ns - start_ns) AS waiting_kv_time_ratio,
           count(waiting_count)                                                   AS waiting_seen_count,
           max(kv_used_blocks_count / kv_total_blocks_count)                      AS kv_used_max_ratio,
           sum(output_tokens)::BIGINT                                             AS output_tokens,
           sum(preempted_count)::BIGINT                                           AS preempted_count
    FROM steps WHERE start_ns >= $a AND start_ns < $b
"""
REQUESTS = """
    SELECT count(*)                                                AS requests_count,
           count(*) FILTER (finish_reason = 'abort')               AS aborted_count,
           count(*) FILTER (finish_reason IS NULL)                 AS unfinished_count,
           avg(scheduled_ns - queued_ns)                           AS queue_mean_ns,
           avg(coalesce(first_delivered_ns, first_token_ns) - arrival_ns) AS ttft_mean_ns,
           avg((last_token_ns - first_token_ns) / (output_tokens - 1)) FILTER (output_tokens > 1) AS itl_mean_ns
    FROM requests WHERE coalesce(queued_ns, arrival_ns, finish_ns) >= $a
                    AND coalesce(queued_ns, arrival_ns, finish_ns) < $b
"""


def load_of(run: RunReader, span: Span) -> dict[str, Value]:
    asked = {"a": span.start_ns, "b": span.end_ns}
    row: dict[str, Value] = {"span_ns": span.end_ns - span.start_ns} | run.one(STEPS, asked) | run.one(REQUESTS, asked)
    seen = row.pop("waiting_seen_count")
    for name in ("waiting_time_ratio", "waiting_kv_time_ratio"):
        row[name] = None if not seen else row[name] or 0.0
    output, busy_ns = row["output_tokens"], row["busy_ns"]
    row["output_tokens_per_s"] = None if output is None or not busy_ns else output * 1e9 / busy_ns
    return row
