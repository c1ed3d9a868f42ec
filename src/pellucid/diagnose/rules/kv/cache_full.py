"""The KV cache is full, and requests wait for it or lose their place in it: seen from the metrics page.

Looks like
    On page after page nearly all of the KV cache is held by requests, with others waiting or with preemptions.

Why it costs
    A waiting request computes nothing. A preempted one is computed again when it returns; how much, no page says.

Not this when
    The cache is full and nobody waits or is preempted: a full cache is a used cache. Blocks that carry a prefix and
    are held by nobody do not count as used.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, blind, clear, found

FULL = Limit(0.95, "ratio", "chosen: a twentieth of the blocks kept for the last, partly filled block of each request")
FULL_TIME = Limit(0.2, "ratio", "chosen: full on less than a fifth of the pages is bursts")
PRESSED = Limit(0.5, "ratio", "chosen: with somebody waiting on less than half of the full pages, the cache mostly just suffices")


def judge(row: Row) -> Verdict:
    if not row["pages_count"]:
        return blind("the page does not tell how full the KV cache is",
                     "install pellucid-probe beside the engine and start it with pellucid run: steps have the blocks used")  # fmt: skip
    full_ratio = row.number("full_pages_count") / row.number("pages_count")
    if full_ratio < FULL_TIME.value:
        return clear(f"the KV cache was full on {percent(full_ratio)} of the pages")
    preempted, pressed = row["preempted_count"] or 0, row.number("pressed_pages_count") / row.number("full_pages_count")
    if not preempted and pressed < PRESSED.value:
        return clear(f"the KV cache was full on {percent(full_ratio)} of the pages, nothing was preempted, and somebody waited on "
                     f"{percent(pressed)} of them: it is used, not short")  # fmt: skip
    queue, running, blocks = row["queue_ttft_ratio"], row["running_mean_count"], row["kv_total_blocks_count"]
    shown = [f"{running:.0f} running" if running is not None else "", f"{blocks:.0f} blocks" if blocks is not None else "",
             f"the queue {percent(queue)} of TTFT" if queue is not None else ""]  # fmt: skip
    return found(
        f"the KV cache was full on {percent(full_ratio)} of the pages: somebody waited on {percent(pressed)} of these, "
        + ", ".join([f"{preempted:.0f} preemptions", *filter(None, shown)]),
        Gain("queue_mean_ns", 0.0, 1.0, "end_to_end") if queue is None else Gain("ttft_mean_ns", 0.0, min(1.0, queue), "end_to_end"),
        _targets(row, preempted),
    )


def _targets(row: Row, preempted: float) -> dict[str, float]:
    """Blocks for those who waited too; where requests were preempted, also only as many as ran while it was full."""
    running, waiting, blocks = row["running_mean_count"], row["waiting_mean_count"], row["kv_total_blocks_count"]
    if not running:
        return {}
    targets = {"max_running_requests": max(1.0, math.floor(running))} if preempted else {}
    if blocks is not None:
        targets["kv_cache_memory"] = float(math.ceil(blocks * (running + max(waiting or 0, 1)) / running / FULL.value))
    return targets


HEAD = """repeat  process  metric  kind  end_ns  value
          """


def _pages(kv: float, waiting: float, preempted: int, *more: str) -> dict[str, str]:
    """Five pages with one in five of such a state, four of them nearly empty."""
    full = ("1  a  kv_used_ratio  gauge  1  " + str(kv), f"1  a  waiting_count  gauge  1  {waiting}", "1  a  running_count  gauge  1  8")
    low = [f"1  a  {m}  gauge  {n}  {v}" for n in (2, 3, 4, 5) for m, v in (("kv_used_ratio", 0.1), ("waiting_count", 0), ("running_count", 99))]
    rest = ("1  a  kv_total_blocks_count  gauge  1  950", f"1  a  preempted_count  counter  1  {preempted}")
    return {"metrics": HEAD + "\n".join([*full, *low, *rest, *more])}


TIMES = ("1  a  queue_ns  sum  1  60", "1  a  queue_ns  count  1  2", "1  a  ttft_ns  sum  1  200", "1  a  ttft_ns  count  1  4")
RULE = Rule(
    id="kv.cache_full",
    question="Is the KV cache full while requests wait for it?",
    needs=(Need("metrics", ("process", "metric", "kind", "end_ns", "value"), "read the engine's metrics page: pellucid attach URL"),),
    evidence=f"""
        WITH page AS (SELECT process, end_ns,
                          max(value) FILTER (metric = 'kv_used_ratio') >= {FULL.value} AS is_full,
                          sum(value) FILTER (metric = 'waiting_count') AS waiting_count,
                          sum(value) FILTER (metric = 'running_count') AS running_count FROM metrics GROUP BY ALL),
             mean AS (SELECT metric, sum(value) FILTER (kind = 'sum') / nullif(sum(value) FILTER (kind = 'count'), 0) AS mean_ns
                      FROM metrics GROUP BY metric)
        SELECT count(is_full)                                               AS pages_count,
               count(*) FILTER (is_full)                                    AS full_pages_count,
               count(*) FILTER (is_full AND waiting_count > 0)              AS pressed_pages_count,
               avg(running_count) FILTER (is_full)                          AS running_mean_count,
               avg(waiting_count) FILTER (is_full)                          AS waiting_mean_count,
               any_value((SELECT sum(value) FROM metrics WHERE metric = 'preempted_count'))       AS preempted_count,
               any_value((SELECT max(value) FROM metrics WHERE metric = 'kv_total_blocks_count')) AS kv_total_blocks_count,
               any_value((SELECT max(mean_ns) FROM mean WHERE metric = 'queue_ns')
                   / (SELECT nullif(max(mean_ns), 0) FROM mean WHERE metric = 'ttft_ns'))                    AS queue_ttft_ratio
        FROM page
    """,
    judge=judge,
    limits=(FULL, FULL_TIME, PRESSED),
    moves=(Move("kv_cache_memory", "raise", "memory that nothing else can use", "kv_total_blocks_count"),
           Move("max_running_requests", "lower", "fewer requests at a time: a longer queue")),
    falsified_by="requests still wait after the move, or output_tokens_per_s falls",
    explained_by=(),
    cases=(
        Case("full, and three wait", "found", _pages(0.95, 3, 0, *TIMES),
             says="somebody waited on 100% of these, 0 preemptions, 8 running, 950 blocks, the queue 60% of TTFT"),
        Case("full, nobody waits, but preemptions", "found", _pages(1.0, 0, 7), says="full on 20% of the pages: somebody waited on 0% of these, 7 preemptions"),
        Case("full and nobody waits", "clear", _pages(0.99, 0, 0), says="it is used, not short"),
        Case("never full", "clear", _pages(0.94, 3, 0), says="on 0% of the pages"),
        Case("no KV use on the page", "blind", {"metrics": HEAD + "9  a  waiting_count  gauge  1  3"}, says="how full"),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
