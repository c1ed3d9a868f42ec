"""The cap on running requests is reached and others wait, although the KV cache could hold them.

Looks like
    Running requests sit at the cap for a good part of the busy time, requests wait for a place, and KV use
    stays low. TTFT is mostly queue; ITL is fine.

Why it costs
    A waiting request computes nothing. Memory that could hold its KV blocks is free.

Not this when
    The cap is reached but nobody waits; requests wait for KV blocks or for the step's token budget; the KV cache
    would be full before the cap could rise; or the wait is small beside the rest of TTFT.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found

CAPPED = Limit(0.2, "ratio", "chosen: waiting in less than a fifth of the busy time is bursts, which a queue is for")
KV_FILL = Limit(0.9, "ratio", "chosen: the tenth left over is for requests that grow while they run; beyond it "
                "the engine preempts and computes again (docs/definitions.md, source S1)")  # fmt: skip
QUEUE_SHARE = Limit(0.1, "ratio", "chosen: removing less than a tenth of TTFT is not felt")
LOW_SHARE = Limit(0.5, "ratio", "chosen: the newly admitted prompts share the step, so up to half of the wait may move to prefill")


def judge(row: Row) -> Verdict:
    capped_ratio = row.number("capped_ns") / row.number("busy_ns")
    if capped_ratio < CAPPED.value:
        return clear(f"requests waited for the sequence cap in {percent(capped_ratio)} of the busy time")
    cap, waiting, kv = (row.number(c) for c in ("sequence_cap_count", "waiting_p95_count", "kv_used_p95_ratio"))
    fits = math.floor(cap * KV_FILL.value / kv) if kv > 0 else math.inf
    target = min(cap + math.ceil(waiting), fits, row.number("token_budget_tokens"))
    if target <= cap:
        return clear(f"the cap of {cap:.0f} binds, but at {percent(kv)} KV use (p95) there is no room for more")
    queue_ns, ttft_ns = row["request_queue_ns"], row["request_ttft_ns"]
    share = queue_ns / ttft_ns if queue_ns is not None and ttft_ns else None
    if share is not None and share < QUEUE_SHARE.value:
        return clear(f"the cap of {cap:.0f} binds, but the queue is {percent(share)} of TTFT")
    room = min(1.0, (target - cap) / waiting)
    high = room * (1.0 if share is None else share)
    metric = "queue_mean_ns" if share is None else "ttft_mean_ns"
    of_ttft = "" if share is None else f"; the queue is {percent(share)} of TTFT"
    return found(
        f"up to {waiting:.0f} requests (p95) waited for one of {cap:.0f} places in {percent(capped_ratio)} of the "
        f"busy time, with {percent(kv)} of the KV cache used (p95){of_ttft}",
        Gain(metric, LOW_SHARE.value * high, high, "end_to_end"),
        {"max_running_requests": target},
    )


TABLES = """repeat  start_ns  end_ns  waiting_sequence_cap_count  sequence_cap_count  kv_used_blocks_count  kv_total_blocks_count  token_budget_tokens
            """
REQUESTS = """arrival_ns  queued_ns  scheduled_ns  first_token_ns
              """


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": TABLES + "\n".join(lines)}


CAPPED_STEPS = _steps("1  0  100  6  4  20  100  512", "4  0  100  0  4  20  100  512")

RULE = Rule(
    id="queue.sequence_cap_binding",
    question="Do requests wait for a place although the KV cache has room?",
    needs=(
        Need("steps", ("start_ns", "end_ns", "waiting_sequence_cap_count", "sequence_cap_count",
                       "kv_used_blocks_count", "kv_total_blocks_count", "token_budget_tokens"),
             "run the engine with the probe: its engine core writes the steps"),
        Need("requests", (), "run the engine with the probe in its frontend",
             ("arrival_ns", "queued_ns", "scheduled_ns", "first_token_ns")),
    ),
    evidence="""
        WITH s AS (SELECT *, end_ns - start_ns AS step_ns, waiting_sequence_cap_count > 0 AS capped FROM steps)
        SELECT sum(step_ns)                                                        AS busy_ns,
               coalesce(sum(step_ns) FILTER (capped), 0)                           AS capped_ns,
               max(sequence_cap_count)                                             AS sequence_cap_count,
               quantile_cont(waiting_sequence_cap_count, .95) FILTER (capped)      AS waiting_p95_count,
               quantile_cont(kv_used_blocks_count / kv_total_blocks_count, .95) FILTER (capped) AS kv_used_p95_ratio,
               max(token_budget_tokens)                                            AS token_budget_tokens,
               (SELECT sum(scheduled_ns - queued_ns) FROM requests WHERE first_token_ns IS NOT NULL) AS request_queue_ns,
               (SELECT sum(first_token_ns - coalesce(arrival_ns, queued_ns)) FROM requests) AS request_ttft_ns
        FROM s
    """,
    judge=judge,
    limits=(CAPPED, KV_FILL, QUEUE_SHARE, LOW_SHARE),
    moves=(Move("max_running_requests", "raise", "more requests in a step: ITL grows, and the KV cache fills", "sequence_cap_count"),),
    falsified_by="queue_mean_ns does not fall after the move, or preemptions begin",
    explained_by=(),
    cases=(
        Case("six wait for four places, KV is free", "found",
             CAPPED_STEPS | {"requests": REQUESTS + "0  0  80  100\n  0  0  -  -"},
             says="up to 6 requests (p95) waited for one of 4 places in 20% of the busy time"),
        Case("requests are not visible", "found", CAPPED_STEPS, says="20% of the KV cache used (p95)"),
        Case("nobody is there but the waiting: KV empty", "found", _steps("1  0  100  6  4  0  100  512"), says="with 0%"),
        Case("the cap is reached, nobody waits", "clear", _steps("9  0  100  0  4  20  100  512"), says="in 0% of"),
        Case("one burst", "clear", _steps("19  0  100  6  4  20  100  512", "81  0  100  0  4  20  100  512")),
        Case("the cap binds, KV is nearly full", "clear", _steps("9  0  100  6  4  90  100  512"), says="no room for more"),
        Case("the token budget allows no more", "clear", _steps("9  0  100  6  4  20  100  4"), says="no room for more"),
        Case("the wait is small beside prefill", "clear",
             CAPPED_STEPS | {"requests": REQUESTS + "0  0  9  100"}, says="9.0% of TTFT"),
        Case("an engine that tells no reason for waiting", "blind",
             _steps("9  0  100  -  4  20  100  512"), says="waiting_sequence_cap_count"),
        Case("no KV figures", "blind", _steps("9  0  100  6  4  -  100  512"), says="kv_used_blocks_count"),
    ),
)  # fmt: skip
