"""Requests wait although the KV cache has room and no more run: the cap on running requests, seen from the metrics page.

Looks like
    On page after page somebody waits, the number of running requests stands at the same figure, and KV use is low.

Why it costs
    A waiting request computes nothing. Memory that could hold its KV blocks is free.

Not this when
    The KV cache is nearly full, the wait is small beside the rest of TTFT, or the number of running requests moves
    about while others wait: then something else holds them back, and only the steps can tell what.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, blind, clear, found

PROBE = "install pellucid-probe beside the engine and start it with pellucid run: steps say why each request waits"
WAITED = Limit(0.2, "ratio", "chosen: waiting on less than a fifth of the pages is bursts, which a queue is for")
AT_CAP = Limit(0.8, "ratio", "chosen: a page read between a finish and the next admission shows a free place at the cap too")
KV_FILL = Limit(0.9, "ratio", "chosen: the tenth left over is for requests that grow while they run; beyond it "
                "the engine preempts and computes again (docs/definitions.md, source S1)")  # fmt: skip
QUEUE_SHARE = Limit(0.1, "ratio", "chosen: removing less than a tenth of TTFT is not felt")
LOW_SHARE = Limit(0.5, "ratio", "chosen: the newly admitted prompts share the step, so up to half of the wait may move to prefill")


def judge(row: Row) -> Verdict:
    if not row["pages_count"]:
        return blind("the page does not tell how many requests wait", PROBE)
    waited = row.number("waiting_pages_count") / row.number("pages_count")
    if waited < WAITED.value:
        return clear(f"requests waited on {percent(waited)} of the pages")
    kv = row["kv_used_p95_ratio"]
    if kv is None or row["running_max_count"] is None:
        return blind("the page does not tell how many requests run, or how full the KV cache is", PROBE)
    running, waiting = row.number("running_max_count"), row.number("waiting_p95_count")
    target = min(running + math.ceil(waiting), math.floor(running * KV_FILL.value / kv) if kv > 0 else math.inf)
    if target <= running:
        return clear(f"requests waited, and at {percent(kv)} KV use (p95) there is no room for more than {running:.0f}")
    share = row["queue_ttft_ratio"]
    if share is not None and share < QUEUE_SHARE.value:
        return clear(f"requests waited on {percent(waited)} of the pages, but the queue is {percent(share)} of TTFT")
    if row.number("at_most_pages_count") < AT_CAP.value * row.number("waiting_pages_count"):
        return blind(f"requests waited on {percent(waited)} of the pages with {percent(kv)} of the KV cache used, and not for the cap "
                     f"on running requests: up to {running:.0f} ran, mostly fewer", PROBE)  # fmt: skip
    high = min(1.0, (target - running) / waiting) * (1.0 if share is None else min(1.0, share))
    return found(
        f"up to {waiting:.0f} requests (p95) waited on {percent(waited)} of the pages while {running:.0f} ran and "
        f"{percent(kv)} of the KV cache was used (p95)",
        Gain("queue_mean_ns" if share is None else "ttft_mean_ns", LOW_SHARE.value * high, high, "end_to_end"),
        {"max_running_requests": target},
    )


HEAD = """repeat  process  metric  kind  end_ns  value
          """


def _pages(waiting: int, running: int, kv: float, *more: str) -> dict[str, str]:
    """Four pages: on two one waits, on the third all, on the last nobody; a second replica idles."""
    lines = [f"1  a  {m}  gauge  {n}  {v}" for n, w in ((1, min(1, waiting)), (2, min(1, waiting)), (3, waiting))
             for m, v in (("waiting_count", w), ("running_count", running), ("kv_used_ratio", kv))]  # fmt: skip
    idle = ["1  a  waiting_count  gauge  4  0", "1  a  running_count  gauge  4  99", "1  a  kv_used_ratio  gauge  4  1",
            "1  b  running_count  gauge  4  3", "1  a  output_tokens  counter  1  7"]  # fmt: skip
    return {"metrics": HEAD + "\n".join([*lines, *idle, *more])}


FULL_LATER = tuple(f"1  a  {m}  gauge  {n}  {v}" for n in (5, 6) for m, v in (("waiting_count", 0), ("running_count", 12)))
TIMES = ("1  a  queue_ns  sum  1  60", "1  a  queue_ns  count  1  2", "1  a  ttft_ns  sum  1  100", "1  a  ttft_ns  count  1  2")
RULE = Rule(
    id="queue.waiting_with_kv_free",
    question="Do requests wait for a place in the batch while the KV cache has room?",
    needs=(Need("metrics", ("process", "metric", "kind", "end_ns", "value"), "read the engine's metrics page: pellucid attach URL"),),
    evidence="""
        WITH page AS (SELECT process, end_ns,
                          sum(value) FILTER (metric = 'waiting_count') AS waiting_count,
                          sum(value) FILTER (metric = 'running_count') AS running_count,
                          max(value) FILTER (metric = 'kv_used_ratio') AS kv_used_ratio FROM metrics GROUP BY ALL),
             most AS (SELECT *, max(running_count) FILTER (waiting_count > 0) OVER (PARTITION BY process) AS most_count FROM page),
             mean AS (SELECT metric, sum(value) FILTER (kind = 'sum') / nullif(sum(value) FILTER (kind = 'count'), 0) AS mean_ns
                      FROM metrics GROUP BY metric)
        SELECT count(waiting_count)                                                         AS pages_count,
               count(*) FILTER (waiting_count > 0)                                          AS waiting_pages_count,
               count(*) FILTER (waiting_count > 0 AND running_count = most_count)           AS at_most_pages_count,
               max(most_count)                                                              AS running_max_count,
               quantile_cont(waiting_count, .95) FILTER (waiting_count > 0)                 AS waiting_p95_count,
               quantile_cont(kv_used_ratio, .95) FILTER (waiting_count > 0)                 AS kv_used_p95_ratio,
               any_value((SELECT max(mean_ns) FROM mean WHERE metric = 'queue_ns')
                   / (SELECT nullif(max(mean_ns), 0) FROM mean WHERE metric = 'ttft_ns'))              AS queue_ttft_ratio
        FROM most
    """,
    judge=judge,
    limits=(WAITED, AT_CAP, KV_FILL, QUEUE_SHARE, LOW_SHARE),
    moves=(Move("max_running_requests", "raise", "more requests in a step: ITL grows, and the KV cache fills"),),
    falsified_by="queue_mean_ns does not fall after the move, or preemptions begin",
    explained_by=(),
    cases=(
        Case("some wait, eight run, KV is free", "found", _pages(6, 8, 0.2, *TIMES),
             says="up to 6 requests (p95) waited on 75% of the pages while 8 ran and 20% of the KV cache was used (p95)"),
        Case("no times on the page", "found", _pages(5, 8, 0.0), says="and 0% of the KV cache"),
        Case("nobody waits", "clear", _pages(0, 8, 0.2), says="on 0% of the pages"),
        Case("the KV cache is full", "clear", _pages(5, 8, 0.9), says="no room for more than 8"),
        Case("the wait is small beside prefill", "clear", _pages(5, 8, 0.2, *TIMES[1:], "1  a  queue_ns  sum  1  8"), says="8.0% of TTFT"),
        Case("the batch is not at a cap", "blind", _pages(5, 8, 0.2, "1  a  running_count  gauge  1  4", *FULL_LATER), says="mostly fewer"),
        Case("no KV use on the page", "blind", {"metrics": HEAD + "9  a  waiting_count  gauge  1  3"}, says="how full"),
        Case("no queue on the page", "blind", {"metrics": HEAD + "9  a  output_tokens  counter  1  3"}, says="how many requests wait"),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
