"""The KV cache is too small for what runs: requests are evicted while they run, and computed again.

Looks like
    Preemptions again and again with the KV cache full, some requests waiting for blocks. The engine may print
    nothing at all about it. ITL has a long tail: a preempted request is silent until it has been computed again.

Why it costs
    A preempted request loses its KV blocks. When it returns, prompt and output so far are computed a second time:
    work done, nothing delivered.

Not this when
    The cache is full but nothing is preempted (a full cache is a used cache), or preempted requests find most of
    their blocks still cached, so that hardly anything is computed twice.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

WASTED = Limit(0.05, "ratio", "chosen: a twentieth of the work; reports of storms show 0.3 to 0.8 (docs/definitions.md, source S2)")
KV_FILL = Limit(0.95, "ratio", "chosen: a twentieth of the blocks kept for the last, partly filled block of each request")


def judge(row: Row) -> Verdict:
    if not row["scheduled_tokens"]:
        return not_applicable("no tokens were computed")
    ratio = row.number("recomputed_tokens") / row.number("scheduled_tokens")
    if ratio < WASTED.value:
        return clear(f"{percent(ratio)} of the computed tokens were computed twice, "
                     f"{row.number('preempted_count'):.0f} preemptions")  # fmt: skip
    return found(
        f"{percent(ratio)} of the computed tokens were computed twice, after {row.number('preempted_count'):.0f} "
        f"preemptions at {percent(row.number('kv_used_p95_ratio'))} KV use (p95)",
        Gain("output_tokens_per_s", 0.0, ratio / max(1 - ratio, 1 / row.number("scheduled_tokens")), "end_to_end"),
        _targets(row),
    )


def _targets(row: Row) -> dict[str, float]:
    """As many requests as the blocks hold when each has grown (p95 of blocks per request), or blocks for all."""
    blocks, each = row.number("kv_total_blocks_count"), row.number("request_blocks_p95_count")
    running = row.number("running_max_count")
    fits = min(math.floor(KV_FILL.value * blocks / each), running - 1)
    wanted = math.ceil(row.number("demand_p95_count") * each / KV_FILL.value)
    targets = {"max_running_requests": float(fits)} if fits >= 1 else {}
    return targets | ({"kv_cache_memory": float(wanted)} if wanted > blocks else {})


HEAD = """repeat  running_count  waiting_kv_count  preempted_count  scheduled_tokens  recomputed_tokens  kv_used_blocks_count  kv_total_blocks_count  sequence_cap_count
          """


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": HEAD + "\n".join(lines)}


RULE = Rule(
    id="kv.preemption_storm",
    question="Does the engine throw away work because the KV cache is full?",
    needs=(Need("steps", ("running_count", "waiting_kv_count", "preempted_count", "scheduled_tokens",
                          "recomputed_tokens", "kv_used_blocks_count", "kv_total_blocks_count", "sequence_cap_count"),
                "run the engine with the probe: its engine core writes the steps"),),
    evidence="""
        WITH s AS (SELECT *, kv_used_blocks_count / kv_total_blocks_count    AS kv_used_ratio,
                          kv_used_blocks_count / nullif(running_count, 0)    AS request_blocks_count FROM steps)
        SELECT sum(preempted_count)                                 AS preempted_count,
               sum(recomputed_tokens)                               AS recomputed_tokens,
               sum(scheduled_tokens)                                AS scheduled_tokens,
               quantile_cont(kv_used_ratio, .95)                    AS kv_used_p95_ratio,
               max(kv_total_blocks_count)                           AS kv_total_blocks_count,
               quantile_cont(request_blocks_count, .95)             AS request_blocks_p95_count,
               max(running_count)                                   AS running_max_count,
               quantile_cont(least(running_count + waiting_kv_count, sequence_cap_count), .95) AS demand_p95_count,
               max(waiting_kv_count)                                AS waiting_kv_max_count
        FROM s
    """,
    judge=judge,
    limits=(WASTED, KV_FILL),
    moves=(Move("max_running_requests", "lower", "fewer requests at a time: a longer queue"),
           Move("kv_cache_memory", "raise", "memory that nothing else can use", "kv_total_blocks_count")),
    falsified_by="recomputed tokens stay after the move, or output_tokens_per_s falls",
    explained_by=(),
    cases=(
        Case("evicts and computes again", "found",
             _steps("1  4  1  0  95  0  98  100  16", "1  4  1  3  5  5  100  100  16"),
             says="5.0% of the computed tokens were computed twice, after 3 preemptions at 100% KV use (p95)"),
        Case("one request alone does not fit", "found", _steps("1  1  0  1  50  50  100  100  16"), says="100% of"),
        Case("preempts, but finds its blocks again", "clear", _steps("1  4  1  3  100  4  100  100  16"), says="3 preemptions"),
        Case("full, nothing preempted", "clear", _steps("9  4  3  0  64  0  100  100  16"), says="0% of"),
        Case("nothing computed", "not_applicable", _steps("1  0  0  0  0  0  0  100  16")),
        Case("recomputation is not seen", "blind", _steps("9  4  3  2  64  -  100  100  16"), says="recomputed_tokens"),
    ),
)  # fmt: skip
