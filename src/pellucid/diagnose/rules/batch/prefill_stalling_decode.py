"""Requests that are decoding stand still while other requests' long prompts are computed in the same step.

Looks like
    ITL is fine in the median and many times longer in the tail. The long gaps are steps in which somebody else's
    prompt was computed. The token budget is large.

Why it costs
    A step ends for all its requests at once. A decode that takes 10 ms alone takes as long as the 2,000-token chunk
    that shares its step. Every stream pauses with each prompt that arrives.

Not this when
    Steps with prompts cost about the same as those without, or too few decodes are in them to be seen in the tail,
    or the tokens computed are recomputation after preemption.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import MS_NS, duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

TIMES = Limit(4, "times", "chosen: well above the 2.5 times that a full step may reach where queue.token_budget_binding asks for more")
EXTRA = Limit(50 * MS_NS, "ns", "chosen: 20 tokens/s is faster than people read, so a shorter pause is not seen in a stream")
GAPS = Limit(0.02, "ratio", "chosen: twice the share that sets itl_p99_ns, so that the 99th percentile lies inside the stalls")
AIM = Limit(3, "times", "chosen: a step of three times a decode is under TIMES with a quarter to spare")
SMALLEST = Limit(16, "tokens", "the smallest KV block size in common use; a chunk below a block caches nothing")


def judge(row: Row) -> Verdict:
    pure_ns, gaps = row["decode_only_p50_ns"], row.number("decode_gaps_count")
    if pure_ns is None or not gaps:
        return not_applicable("no step had decodes only: there is nothing to compare with")
    ratio = row.number("stalled_gaps_count") / gaps
    if ratio < GAPS.value:
        return clear(f"{percent(ratio)} of the token gaps were {TIMES.value:.0f} times longer because of other requests' prompts")
    stalled_ns, tokens = row.number("stalled_mean_ns"), row.number("stalled_prefill_mean_tokens")
    target = max(_chunk(tokens * (AIM.value - 1) * pure_ns / (stalled_ns - pure_ns)), row.number("sequence_cap_count"))
    targets = {"step_token_budget": target} if target < row.number("token_budget_tokens") else {}
    return found(
        f"{percent(ratio)} of the token gaps took {duration(stalled_ns)} instead of {duration(pure_ns)}, because the step "
        f"also computed {tokens:.0f} tokens (mean) of other requests' prompts",
        Gain("itl_p99_ns", 1 - AIM.value / TIMES.value, 1 - AIM.value * pure_ns / max(stalled_ns, TIMES.value * pure_ns), "end_to_end"),
        targets | {"long_prefill_threshold": target},
    )


def _chunk(tokens: float) -> float:
    """The power of two at or below, a block at least."""
    return max(SMALLEST.value, float(2 ** math.floor(math.log2(max(tokens, 1.0)))))


HEAD = """repeat  start_ns  end_ns  host_gap_ns  prefill_tokens  recomputed_tokens  decode_requests_count  token_budget_tokens  sequence_cap_count
          """


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": HEAD + "\n".join(lines)}


DECODES = "98  0  20e6  -  0  0  1  2048  8"
RULE = Rule(
    id="batch.prefill_stalling_decode",
    question="Do streams pause while other requests' prompts are computed?",
    needs=(Need("steps", ("start_ns", "end_ns", "prefill_tokens", "recomputed_tokens", "decode_requests_count",
                          "token_budget_tokens", "sequence_cap_count"),
                "run the engine with the probe: its engine core writes the steps", optional=("host_gap_ns",)),),
    evidence=f"""
        WITH s AS (SELECT *, end_ns - start_ns + coalesce(host_gap_ns, 0) AS gap_ns FROM steps),
             d AS (SELECT median(end_ns - start_ns + coalesce(host_gap_ns, 0)) AS decode_ns FROM span_steps
                   WHERE prefill_tokens + recomputed_tokens = 0),
             t AS (SELECT s.* FROM s, d WHERE prefill_tokens > 0 AND recomputed_tokens = 0
                   AND gap_ns >= greatest({TIMES.value} * decode_ns, decode_ns + {EXTRA.value}))
        SELECT (SELECT sum(decode_requests_count) FROM s)                   AS decode_gaps_count,
               (SELECT decode_ns FROM d)                                    AS decode_only_p50_ns,
               coalesce(sum(decode_requests_count), 0)                      AS stalled_gaps_count,
               sum(gap_ns * decode_requests_count) / sum(decode_requests_count) AS stalled_mean_ns,
               max(gap_ns)                                                  AS stalled_max_ns,
               sum(prefill_tokens * decode_requests_count) / sum(decode_requests_count) AS stalled_prefill_mean_tokens,
               (SELECT max(token_budget_tokens) FROM s)                     AS token_budget_tokens,
               (SELECT max(sequence_cap_count) FROM s)                      AS sequence_cap_count
        FROM t
    """,
    judge=judge,
    limits=(TIMES, EXTRA, GAPS, AIM, SMALLEST),
    moves=(Move("step_token_budget", "lower", "prompts take more steps: TTFT of long prompts grows", "token_budget_tokens"),
           Move("long_prefill_threshold", "set", "long prompts take more steps; short ones keep the whole budget")),
    falsified_by="itl_p99_ns does not fall after the move",
    explained_by=("kv.preemption_storm",),
    cases=(
        Case("two decodes in a hundred behind a long prompt", "found",
             _steps(DECODES, "2  0  80e6  -  1200  0  1  2048  8"), says="2.0% of the token gaps took 80 ms instead of 20 ms"),
        Case("a budget that is small already", "found",
             _steps(DECODES, "2  0  80e6  -  1200  0  1  512  8"), says="1200 tokens (mean)"),
        Case("few decodes are hit", "clear", _steps(DECODES, "1  0  80e6  -  1200  0  1  2048  8"), says="1.0% of"),
        Case("mixed steps cost little more", "clear", _steps(DECODES, "50  0  79e6  -  60  0  1  2048  8"), says="0% of"),
        Case("four times longer, but not to be seen", "clear",
             _steps("98  0  10e6  -  0  0  1  2048  8", "50  0  59e6  -  60  0  1  2048  8"), says="0% of"),
        Case("prompts while nobody decodes", "clear", _steps(DECODES, "50  0  900e6  -  1200  0  0  2048  8"), says="0% of"),
        Case("recomputation after preemption", "clear", _steps(DECODES, "50  0  900e6  -  9  900  1  2048  8"), says="0% of"),
        Case("slow steps without a prompt", "clear", _steps(DECODES, "9  0  900e6  0  0  0  1  2048  8"), says="0% of"),
        Case("no step with decodes only", "not_applicable", _steps("9  0  80e6  0  1200  0  1  2048  8")),
        Case("phases are not known", "blind", _steps("9  0  80e6  0  -  0  1  2048  8"), says="prefill_tokens"),
    ),
)  # fmt: skip
