"""Span, windows and load of a run that has no step in it, only metrics pages: `metrics` rows.

    span_of(evidence).windows        five parts of the same length: how busy the engine was, no page says
    load_of(evidence, span)["running_mean_count"]

Keys of the load are those of `load`, and null where no page can tell. A page is a moment: `waiting_time_ratio` is the
share of pages on which somebody waited, and `output_tokens_per_s` counts the whole span, idle time too.
"""

from __future__ import annotations

from itertools import pairwise

from pellucid.diagnose.evidence import Evidence, Window
from pellucid.diagnose.rule import Need, Value
from pellucid.diagnose.span_of.steps import WINDOWS, Span

COLUMNS = ("process", "metric", "kind", "part", "start_ns", "end_ns", "value")
NEEDS = (Need("metrics", (), "", COLUMNS),)
# Gauges of one page, all its data-parallel ranks together; increases of the span.
LOAD = """
    WITH page AS (
        SELECT end_ns, sum(value) FILTER (metric = 'running_count')  AS running_count,
                       sum(value) FILTER (metric = 'waiting_count')  AS waiting_count,
                       max(value) FILTER (metric = 'kv_used_ratio')  AS kv_used_ratio
        FROM _all_metrics WHERE kind = 'gauge' GROUP BY end_ns),
    grown AS (SELECT metric, kind, sum(value) AS value FROM _all_metrics WHERE kind <> 'gauge' GROUP BY ALL)
    SELECT (SELECT avg(running_count) FROM page)                                              AS running_mean_count,
           (SELECT max(running_count) FROM page)                                              AS running_max_count,
           (SELECT max(waiting_count) FROM page)                                              AS waiting_max_count,
           (SELECT count(*) FILTER (waiting_count > 0) / nullif(count(waiting_count), 0) FROM page)
                                                                                              AS waiting_time_ratio,
           (SELECT max(kv_used_ratio) FROM page)                                              AS kv_used_max_ratio,
           any_value(value) FILTER (metric = 'output_tokens')                                 AS output_tokens,
           any_value(value) FILTER (metric = 'preempted_count')                               AS preempted_count,
           any_value(value) FILTER (metric = 'finished_count')                                AS requests_count,
           any_value(value) FILTER (metric = 'queue_ns' AND kind = 'sum')
               / nullif(any_value(value) FILTER (metric = 'queue_ns' AND kind = 'count'), 0)  AS queue_mean_ns,
           any_value(value) FILTER (metric = 'ttft_ns' AND kind = 'sum')
               / nullif(any_value(value) FILTER (metric = 'ttft_ns' AND kind = 'count'), 0)   AS ttft_mean_ns,
           any_value(value) FILTER (metric = 'itl_ns' AND kind = 'sum')
               / nullif(any_value(value) FILTER (metric = 'itl_ns' AND kind = 'count'), 0)    AS itl_mean_ns,
           any_value(value) FILTER (metric = 'e2e_ns' AND kind = 'sum')
               / nullif(any_value(value) FILTER (metric = 'e2e_ns' AND kind = 'count'), 0)    AS e2e_mean_ns,
           (SELECT count(DISTINCT process) FROM _all_metrics WHERE metric = 'running_count')  AS replicas_count,
           (SELECT count(DISTINCT end_ns) FROM _all_metrics)                                  AS pages_count
    FROM grown
"""


def span_of(evidence: Evidence) -> Span | None:
    """From the first page to the last; None without two of them."""
    (edge,) = evidence.rows("SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM _all_metrics")
    if edge["first_ns"] is None or edge["last_ns"] is None or edge["last_ns"] == edge["first_ns"]:
        return None
    start_ns, end_ns = int(edge["first_ns"]), int(edge["last_ns"])
    cuts = [start_ns + (end_ns - start_ns) * n // WINDOWS for n in range(1, WINDOWS)]
    windows = tuple(Window(a, b) for a, b in pairwise([None, *cuts, None]))
    return Span(start_ns, end_ns, 0, windows)


def load_of(evidence: Evidence, span: Span) -> dict[str, Value]:
    row = evidence.rows(LOAD)[0]
    seconds = (span.end_ns - span.start_ns) / 1e9
    output = row["output_tokens"]
    rate = None if output is None else output / seconds
    return {"span_ns": span.end_ns - span.start_ns, "steps_count": None, **row, "output_tokens_per_s": rate}
