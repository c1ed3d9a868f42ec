"""Prompts are computed again because their KV blocks were evicted before the next request wanted them.

Looks like
    The same documents come again; they are found close behind each other, and not when others came in between.

Why it costs
    A prefix that comes back after its blocks were taken is computed again, and pushes out the next one.

Not this when
    Blocks are evicted and nobody wants them again, the prompts differ, or prefill is a small part of TTFT.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

SOME = Limit(0.05, "ratio", "chosen: the rest of a well cached prompt is small, and its prefill mostly what a step costs anyhow")
FELT = Limit(0.1, "ratio", "chosen: removing less than a tenth of TTFT is not felt")
KEPT = Limit(0.9, "ratio", "chosen: the last tenth of the returns is after very long times, and would take most of the memory")
LOW_SHARE = Limit(0.5, "ratio", "chosen: steps are shared, so up to half of a request's prefill time may be other requests' work")


def judge(row: Row) -> Verdict:
    evicted, prompt = row.number("evicted_tokens"), row.number("prompt_tokens")
    if evicted / prompt < SOME.value:
        return clear(f"{percent(evicted / prompt)} of the prompt tokens had been cached and evicted before they were wanted")
    if not row["request_ttft_ns"]:
        return not_applicable("no request had a first token: there is no TTFT to gain")
    prefill = row.number("request_prefill_ns") / row.number("request_ttft_ns")
    high = evicted / (prompt - row.number("cached_tokens")) * prefill
    if high < FELT.value:
        return clear(f"{percent(evicted / prompt)} of the prompt tokens had been cached and evicted: {percent(high)} of TTFT")
    extra, total = row["extra_blocks_count"], row.number("kv_total_blocks_count")
    size = "no evicted block was seen to come back, so how many more would do is not known" if extra is None else (
        f"{extra:.0f} more blocks than the {total:.0f} there are would have kept {percent(KEPT.value)} of what came back")
    ago = "" if row["evicted_age_p50_ns"] is None else f", {duration(row.number('evicted_age_p50_ns'))} before (median)"
    return found(
        f"{percent(evicted / prompt)} of the prompt tokens had been cached and were evicted before they were wanted again{ago}; "
        f"{row.number('evicted_by_others_count'):.0f} of {row.number('evicted_by_count'):.0f} to make room for another prefix; {size}",
        Gain("ttft_mean_ns", LOW_SHARE.value * high, high, "end_to_end"),
        {} if extra is None else _targets(row, extra, total),
    )


def _targets(row: Row, extra: float, total: float) -> dict[str, float]:
    fewer = row.number("running_max_count") - math.ceil(extra / row.number("request_blocks_p95_count"))
    cap = {"max_running_requests": float(fewer)} if fewer >= 1 else {}
    return {"kv_cache_memory": total + extra, "kv_offload_memory": extra, **cap}


LOOKUPS = "repeat  process  request  family  prompt_tokens  cached_tokens  evicted_tokens  evicted_age_ns  evicted_by\n"
REQUESTS = {"requests": "arrival_ns  queued_ns  scheduled_ns  first_token_ns\n 0  10  20  100\n 0  10  -  -"}
STEPS = {"steps": "kv_used_blocks_count  kv_total_blocks_count  running_count\n 40  100  4\n 0  100  0"}
# 'a' was evicted at 20 and came back at 60, before which 'b' and 'c' were evicted: it wanted three more blocks, all others one.
LIVES = "process  tier  kv_group  block_hash  cached_ns  removed_ns  removed_reason\n"
BLOCKS = {"kv_residency": LIVES + "\n".join(f"core-1  device  -  {life}" for life in (
    "x  0  5  evicted", "a  0  20  evicted", "b  1  30  evicted", "c  2  50  evicted", "x  7  60  evicted", "c  55  -  -",
    "a  60  -  -", "x  60  -  -"))}


def _lookups(*lines: str) -> dict[str, str]:
    return {"prefix_lookups": LOOKUPS + "\n".join(lines)} | REQUESTS | STEPS | BLOCKS


RULE = Rule(
    id="prefix.evicted_before_reuse",
    question="Are prompts computed again because their KV blocks were evicted too early?",
    needs=(
        Need("prefix_lookups", ("process", "request", "prompt_tokens", "cached_tokens", "evicted_tokens"),
             "run the engine with the probe, and prefix caching on", ("family", "evicted_age_ns", "evicted_by"), fact="kv.lives"),
        Need("kv_residency", ("process", "block_hash", "cached_ns"), "run the engine with the probe, and prefix caching on",
             ("tier", "kv_group", "tokens", "removed_ns", "removed_reason", "stands_for_count"), fact="kv.lives"),
        Need("steps", ("kv_used_blocks_count", "kv_total_blocks_count", "running_count"), "run the engine with the probe",
             ("process", "start_ns", "kv_allocated_blocks_count")),
        Need("requests", ("queued_ns", "scheduled_ns", "first_token_ns"), "run the engine with the probe", ("arrival_ns",)),
    ),
    evidence=f"""
        WITH takers AS (SELECT l.family IS DISTINCT FROM e.family AS other FROM prefix_lookups l JOIN span_prefix_lookups e
                        ON l.process = e.process AND l.evicted_by = e.request)
        SELECT sum(prompt_tokens) AS prompt_tokens, sum(cached_tokens) AS cached_tokens, sum(evicted_tokens) AS evicted_tokens,
               median(evicted_age_ns)                                         AS evicted_age_p50_ns,
               (SELECT count(*) FROM takers) AS evicted_by_count, (SELECT count(*) FILTER (other) FROM takers) AS evicted_by_others_count,
               (SELECT quantile_disc(distance_count, {KEPT.value}) FROM block_returns WHERE tier = 'device') AS extra_blocks_count,
               (SELECT max(kv_total_blocks_count) FROM steps)                 AS kv_total_blocks_count,
               (SELECT max(running_count) FROM steps)                         AS running_max_count,
               (SELECT quantile_cont(kv_used_blocks_count / nullif(running_count, 0), .95) FROM steps) AS request_blocks_p95_count,
               (SELECT sum(first_token_ns - scheduled_ns) FROM requests)      AS request_prefill_ns,
               (SELECT sum(first_token_ns - coalesce(arrival_ns, queued_ns)) FROM requests) AS request_ttft_ns
        FROM prefix_lookups
    """,
    views=("block_returns",),
    judge=judge, limits=(SOME, FELT, KEPT, LOW_SHARE),
    moves=(Move("kv_cache_memory", "raise", "memory that nothing else can use", "kv_total_blocks_count"),
           Move("kv_offload_memory", "set", "host memory; blocks come back at the speed of the bus", "kv_total_blocks_count"),
           Move("max_running_requests", "lower", "fewer requests at a time: a longer queue")),
    falsified_by="evicted_tokens of prefix_lookups stays after the move, or ttft_mean_ns does not fall",
    explained_by=("kv.too_small", "kv.preemption_storm"),
    cases=(
        Case("documents in turn, and blocks for fewer", "found",
             _lookups("1  core-1  1  A  100  0  0  -  -", "1  core-1  2  B  100  0  0  -  -", "1  core-1  3  A  100  0  50  2e9  2"),
             says="before they were wanted again, 2.0 s before (median); 1 of 1 to make room for another prefix; 3 more blocks than"),
        Case("pushed out by its own kind", "found", _lookups("1  core-1  1  A  90  0  90  -  1"), says="again; 0 of 1 to make room"),
        Case("evicted, but nobody asks again", "clear", _lookups("9  core-1  1  A  100  0  0  -  -"), says="0% of"),
        Case("a small part of the prompts", "clear", _lookups("9  core-1  1  A  100  20  8  2e9  -"), says="8.0% of TTFT"),
        Case("no first token", "not_applicable",
             _lookups("9  core-1  1  A  100  20  30  2e9  -") | {"requests": "queued_ns  scheduled_ns  first_token_ns\n 1  1  -\n 1  -  1"}),
        Case("lookups are not seen", "blind", _lookups("9  core-1  1  A  100  20  -  -  -"), says="evicted_tokens"),
    ),
)  # fmt: skip
