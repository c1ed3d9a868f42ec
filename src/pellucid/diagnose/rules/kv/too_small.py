"""Requests wait for KV blocks although the cap on running requests would let them in: memory sets the batch size.

Looks like
    Running requests stay under the cap, others wait, and the KV cache is full. TTFT is mostly queue. Hardly anything
    is preempted: the engine admits a request only when its blocks are free.

Why it costs
    A waiting request computes nothing, and a small batch reads all weights for few tokens.

Not this when
    Waiting is for the cap or the token budget; the cache fills for a moment; the wait is small beside the rest of
    TTFT; or much is computed twice. In that case too many are admitted, not too few: kv.preemption_storm.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

HELD_BACK = Limit(0.2, "ratio", "chosen: waiting in less than a fifth of the busy time is bursts, which a queue is for")
WASTED = Limit(0.05, "ratio", "chosen: from a twentieth of the work on, kv.preemption_storm says what is wrong")
QUEUE_SHARE = Limit(0.1, "ratio", "chosen: removing less than a tenth of TTFT is not felt")
KV_FILL = Limit(0.95, "ratio", "chosen: a twentieth of the blocks kept for the last, partly filled block of each request")


def judge(row: Row) -> Verdict:
    ratio = row.number("held_back_ns") / row.number("busy_ns")
    if ratio < HELD_BACK.value:
        return clear(f"requests waited for KV blocks below the cap in {percent(ratio)} of the busy time")
    wasted = row.number("recomputed_tokens") / max(row.number("scheduled_tokens"), 1)
    if wasted >= WASTED.value:
        return clear(f"requests waited for KV blocks in {percent(ratio)} of the busy time, but {percent(wasted)} of the work was "
                     "computed twice: more are admitted than fit")  # fmt: skip
    if not row["request_ttft_ns"]:
        return not_applicable("no request had a first token: there is no TTFT to gain")
    share = row.number("request_queue_ns") / row.number("request_ttft_ns")
    if share < QUEUE_SHARE.value:
        return clear(f"requests waited for KV blocks in {percent(ratio)} of the busy time, but the queue is {percent(share)} of TTFT")
    blocks, running, demand = (row.number(c) for c in ("kv_total_blocks_count", "running_p95_count", "demand_p95_count"))
    wanted = math.ceil(demand * row.number("request_blocks_p95_count") / KV_FILL.value)
    return found(
        f"KV blocks for {running:.0f} requests (p95), while {demand:.0f} (p95) were there and might run: others waited for blocks in "
        f"{percent(ratio)} of the busy time; the queue is {percent(share)} of TTFT",
        Gain("ttft_mean_ns", 0.0, share, "end_to_end"),      # none where compute is short too: the wait moves to prefill
        {"kv_cache_memory": float(max(wanted, blocks + 1))},
    )


HEAD = """repeat  start_ns  end_ns  running_count  waiting_kv_count  sequence_cap_count  scheduled_tokens  recomputed_tokens  kv_used_blocks_count  kv_total_blocks_count
          """
REQUESTS = {"requests": "arrival_ns  queued_ns  scheduled_ns  first_token_ns\n 0  10  60  100\n 0  10  -  -"}


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": HEAD + "\n".join(lines)} | REQUESTS


RULE = Rule(
    id="kv.too_small",
    question="Do requests wait for KV blocks while the cap would let them run?",
    needs=(
        Need("steps", ("start_ns", "end_ns", "running_count", "waiting_kv_count", "sequence_cap_count", "scheduled_tokens",
                       "recomputed_tokens", "kv_used_blocks_count", "kv_total_blocks_count"),
             "run the engine with the probe: its engine core writes the steps"),
        Need("requests", ("queued_ns", "scheduled_ns", "first_token_ns"), "run the engine with the probe", ("arrival_ns",)),
    ),
    evidence="""
        WITH s AS (SELECT *, end_ns - start_ns AS step_ns, waiting_kv_count > 0 AND running_count < sequence_cap_count AS held_back,
                          kv_used_blocks_count / nullif(running_count, 0) AS request_blocks_count FROM steps)
        SELECT sum(step_ns)                                                   AS busy_ns,
               coalesce(sum(step_ns) FILTER (held_back), 0)                   AS held_back_ns,
               quantile_cont(running_count, .95)                              AS running_p95_count,
               quantile_cont(least(running_count + waiting_kv_count, sequence_cap_count), .95) AS demand_p95_count,
               quantile_cont(request_blocks_count, .95)                       AS request_blocks_p95_count,
               max(kv_total_blocks_count)                                     AS kv_total_blocks_count,
               sum(recomputed_tokens)                                         AS recomputed_tokens,
               sum(scheduled_tokens)                                          AS scheduled_tokens,
               (SELECT sum(scheduled_ns - queued_ns) FROM requests WHERE first_token_ns IS NOT NULL) AS request_queue_ns,
               (SELECT sum(first_token_ns - coalesce(arrival_ns, queued_ns)) FROM requests) AS request_ttft_ns
        FROM s
    """,
    judge=judge, limits=(HELD_BACK, WASTED, QUEUE_SHARE, KV_FILL),
    moves=(Move("kv_cache_memory", "raise", "memory that nothing else can use", "kv_total_blocks_count"),),
    falsified_by="queue_mean_ns does not fall after the move, or requests wait for something else",
    explained_by=(),
    cases=(
        Case("blocks for three, four are there", "found", _steps("1  0  100  3  1  16  90  0  96  100", "4  0  100  2  0  16  90  0  64  100"),
             says="waited for blocks in 20% of the busy time; the queue is 50% of TTFT"),
        Case("a burst", "clear", _steps("19  0  100  3  5  16  90  0  96  100", "81  0  100  2  0  16  90  0  64  100"), says="in 19% of"),
        Case("the cap is reached too", "clear", _steps("9  0  100  3  5  3  90  0  96  100"), says="in 0% of"),
        Case("full, nobody waits", "clear", _steps("9  0  100  3  0  16  90  0  100  100"), says="in 0% of"),
        Case("much is computed twice", "clear", _steps("9  0  100  3  5  16  90  5  96  100"), says="5.6% of the work was computed twice"),
        Case("the wait is short", "clear", _steps("9  0  100  3  5  16  90  0  96  100")
             | {"requests": "queued_ns  scheduled_ns  first_token_ns\n 0  9  100\n 0  90  -"}, says="9.0% of TTFT"),
        Case("no first token", "not_applicable", _steps("9  0  100  3  5  16  90  0  96  100")
             | {"requests": "queued_ns  scheduled_ns  first_token_ns\n 0  9  -\n -  -  9"}),
        Case("an engine that tells no reason for waiting", "blind", _steps("9  0  100  3  -  16  90  0  96  100"), says="waiting_kv_count"),
    ),
)  # fmt: skip
