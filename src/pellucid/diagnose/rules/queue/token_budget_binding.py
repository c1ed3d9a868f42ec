"""The token budget of a step is so small that prompts are computed in crumbs, and each step's fixed cost is paid for each.

Looks like
    Steps use up the whole budget for a good part of the busy time, prompts wait or go in chunks, and a full step
    costs hardly more than an almost empty one. TTFT is long.

Why it costs
    Reading the weights and launching a step costs the same for 64 tokens as for 512. A step with few tokens pays it
    for few. The fixed part is the intercept of step time over tokens.

Not this when
    The budget is reached in a burst only, or a full step's time is nearly all proportional to its tokens: then the
    engine is short of compute, and a larger budget would only make decodes wait longer.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

FULL = Limit(0.98, "ratio", "chosen: what block alignment and slots kept for draft tokens may leave over")
FULL_TIME = Limit(0.2, "ratio", "chosen: full steps in less than a fifth of the busy time are bursts")
FIXED = Limit(0.4, "ratio", "chosen: below it a larger budget saves less than two fifths of the prefill time at the very most; it also "
              "keeps a full step under 2.5 times an empty one, so that prefill cannot be stalling decode too")  # fmt: skip
FIXED_AFTER = Limit(0.25, "ratio", "chosen: where the fixed part is a quarter of a full step, a further doubling gains an eighth at most")
MOST = Limit(16, "times", "chosen: the fitted cost per token is not trusted further than this outside of what was seen")


def judge(row: Row) -> Verdict:
    full_ratio = row.number("full_ns") / row.number("busy_ns")
    if full_ratio < FULL_TIME.value:
        return clear(f"steps used up the token budget in {percent(full_ratio)} of the busy time")
    fixed_ns, token_ns, budget = row["fixed_ns"], row["per_token_ns"], row.number("token_budget_tokens")
    if fixed_ns is None or token_ns is None:
        return not_applicable("all steps had the same tokens: their cost cannot be split into fixed and per token")
    fixed_ns, token_ns = max(0.0, fixed_ns), max(0.0, token_ns)
    fixed_ratio = fixed_ns / max(1.0, fixed_ns + token_ns * budget)
    if fixed_ratio < FIXED.value:
        return clear(f"steps are full, but {percent(1 - fixed_ratio)} of their time is proportional to tokens: short of compute")
    target = _target(fixed_ns, token_ns, budget)
    gain = 1 - (fixed_ns / target + token_ns) / (fixed_ns / budget + token_ns)
    return found(
        f"steps used up their {budget:.0f} tokens in {percent(full_ratio)} of the busy time, and {percent(fixed_ratio)} "
        f"of a full step ({duration(fixed_ns)}) would be the same with no token in it",
        Gain("ttft_mean_ns", gain * full_ratio, gain, "end_to_end"),
        {"step_token_budget": target},
    )


def _target(fixed_ns: float, token_ns: float, budget: float) -> float:
    """The power of two at which the fixed part has fallen to FIXED_AFTER, 2 to 16 times the present budget."""
    wanted = fixed_ns * (1 / FIXED_AFTER.value - 1) / token_ns if token_ns else math.inf
    return float(2 ** math.ceil(math.log2(min(max(wanted, 2 * budget), MOST.value * budget))))


HEAD = """repeat  start_ns  end_ns  scheduled_tokens  prefill_tokens  token_budget_tokens  waiting_token_budget_count
          """


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": HEAD + "\n".join(lines)}


RULE = Rule(
    id="queue.token_budget_binding",
    question="Is the token budget of a step too small for the prompts that arrive?",
    needs=(Need("steps", ("start_ns", "end_ns", "scheduled_tokens", "prefill_tokens", "token_budget_tokens",
                          "waiting_token_budget_count"),
                "run the engine with the probe: its engine core writes the steps"),),
    evidence=f"""
        WITH s AS (SELECT *, end_ns - start_ns AS step_ns,
                          scheduled_tokens >= {FULL.value} * token_budget_tokens
                          AND (prefill_tokens > 0 OR waiting_token_budget_count > 0) AS is_full FROM steps)
        SELECT sum(step_ns)                                   AS busy_ns,
               coalesce(sum(step_ns) FILTER (is_full), 0)     AS full_ns,
               count(*) FILTER (is_full)                      AS full_steps_count,
               max(waiting_token_budget_count)                AS waiting_max_count,
               max(token_budget_tokens)                       AS token_budget_tokens,
               (SELECT regr_intercept(end_ns - start_ns, scheduled_tokens) FROM span_steps) AS fixed_ns,
               (SELECT regr_slope(end_ns - start_ns, scheduled_tokens) FROM span_steps)     AS per_token_ns
        FROM s
    """,
    judge=judge,
    limits=(FULL, FULL_TIME, FIXED, FIXED_AFTER, MOST),
    moves=(Move("step_token_budget", "raise", "steps with prompts in them take longer: decodes in them wait", "token_budget_tokens"),),
    falsified_by="ttft_mean_ns does not fall after the move",
    explained_by=("kv.preemption_storm",),
    cases=(
        Case("full steps cost hardly more than small ones", "found",
             _steps("2  0  1250  50  49  50  0", "8  0  1000  0  0  50  0"), says="80% of a full step (1.0 µs)"),
        Case("prompts wait behind decodes that take it all", "found",
             _steps("9  0  1250  49  0  50  3", "1  0  1000  0  0  50  0"), says="used up their 50 tokens in 92%"),
        Case("one burst", "clear", _steps("2  0  1250  50  49  50  9", "98  0  1000  0  0  50  0"), says="in 2.5%"),
        Case("full, but short of compute", "clear",
             _steps("9  0  6000  50  49  50  9", "9  0  1000  0  0  50  0"), says="short of compute"),
        Case("decodes fill it, no prompt wants more", "clear", _steps("9  0  1250  50  0  50  0"), says="in 0% of"),
        Case("prompts that do not fill it", "clear", _steps("9  0  1250  48  40  50  0"), says="in 0% of"),
        Case("every step alike", "not_applicable", _steps("9  0  1250  50  49  50  9"), says="same tokens"),
        Case("the budget is not known", "blind", _steps("9  0  1250  50  49  -  9"), says="token_budget_tokens"),
    ),
)  # fmt: skip
