"""The engine's metrics page counts other preemptions, cached tokens or KV blocks than its engine core had.

Looks like
    Over the same time the page's counter of preemptions or of cached prompt tokens grew by something else than what was
    recorded, or its KV use lies outside of what the core held before and after the page.

Why it costs
    Capacity is planned on KV use, and alerts are set on preemptions: with a wrong number both are decided blindly.

Not this when
    What differs is what the page never has. Freed blocks that still carry a prefix count as free; only the first
    admission's cached tokens are told; a preemption is told with the request's next token, without what was computed again;
    of several frontends each counts its own requests, and a gauge is that of the one that wrote last.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from collections.abc import Iterator

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Need, Row, Rule, Verdict, clear, found, not_applicable

MISSING = Limit(0.05, "ratio", "chosen: one in twenty; a page comes a moment after what it counts, and the first and the last may miss some")
FEW = Limit(5, "preemptions", "chosen: fewer may lie between a step and the page that tells them")
OFF = Limit(0.1, "ratio", "chosen: a page tells the step before it; from one to the next some requests come or go, a tenth of all blocks seldom does")


def judge(row: Row) -> Verdict:
    if row["page_preempted_count"] is None and row["page_cached_tokens"] is None and row["page_kv_used_ratio"] is None:
        return not_applicable("no metrics page was read beside the probe: there is nothing to compare")
    frontends, several = row.number("frontends_count"), row.number("frontends_count") > 1
    if several and (resets := row["counter_resets_count"]):
        return not_applicable(f"{frontends:.0f} frontends answer with a page each in turn (counters fell {resets:.0f} times): its increases are nobody's")
    compared = [part for one in (_kv, _preemptions, _cached) for part in one(row)]
    wrong = [says for says, lacks, exceeds in compared if exceeds or (lacks and not several)]
    if wrong:
        return found(f"the metrics page says {'; '.join(wrong)}", Gain("e2e_mean_ns", 0.0, 0.0, "local"), {})
    trap = f"; of {frontends:.0f} frontends each counts its own requests, and a gauge is that of the one that wrote last" if several else ""
    return clear(f"the metrics page says {'; '.join(says for says, _, _ in compared)}{trap}")


Compared = Iterator[tuple[str, bool, bool]]   # what both say; whether the page is off as that of one of several frontends may be; whether otherwise


def _kv(row: Row) -> Compared:
    page = row["page_kv_used_ratio"]
    if page is not None:
        held, cached, is_off = row.number("kv_used_ratio"), row["kv_cached_ratio"], row.number("kv_off_ratio") >= OFF.value
        free = f", and {percent(cached)} carry a prefix: freed blocks that do count as free" if cached is not None and cached - held >= OFF.value else ""
        yield f"{percent(page)} of the KV blocks are in use where at most {percent(held)} were held{free}", is_off, False


def _preemptions(row: Row) -> Compared:
    page, ours = row["page_preempted_count"], row["preempted_count"]
    if page is not None and ours is not None:
        untold, again = row["untold_count"] or 0, row["recomputed_tokens"] or 0
        says = f"{page:.0f} preemptions where there were {ours:.0f}"
        says += f" ({untold:.0f} of requests that never came back, which it does not learn)" if untold else ""
        says += f"; it does not say that {again:,.0f} tokens were computed again, nor what was found cached then" if again else ""
        far = max(FEW.value, MISSING.value * ours)
        yield says, ours - untold - page >= far, page - ours >= far


def _cached(row: Row) -> Compared:
    page, ours = row["page_cached_tokens"], row["cached_tokens"]
    if page is not None and ours is not None:
        prompts = row.number("prompt_tokens")
        far = MISSING.value * max(prompts, 1)
        yield f"{page:,.0f} prompt tokens were found cached where {ours:,.0f} of {prompts:,.0f} were", ours - page >= far, page - ours >= far


PAGE = "metric  kind  start_ns  end_ns  value\n"
STEPS = "repeat  process  step  end_ns  kv_used_blocks_count  kv_total_blocks_count  kv_cached_blocks_count  kv_freed_blocks_count  preempted_count  recomputed_tokens\n"
REQUESTS = "repeat  first_token_ns  finish_ns  prompt_tokens  cached_tokens  preemptions_count  aborted_by  client_index\n"
BOTH = ("1  e  1  1  90  100  95  0  40  0", "1  e  2  3  10  100  95  80  60  500", "1  e  3  9  10  100  95  0  70  0")
SERVED = ("10  3  3  100  40  9  -  0", "1  9  9  900  0  0  -  0")
STEADY = ("1  e  1  1  50  100  50  0  40  0", "1  e  2  3  50  100  50  0  60  0")


def _case(preempted: float, cached: float, kv: float, steps: tuple[str, ...] = BOTH, requests: tuple[str, ...] = SERVED, resets: int = 0) -> dict[str, str]:
    """A page at 2 ns, another at 4 ns: what its counters grew by in between, and KV use on the first."""
    page = (f"preempted_count  counter  1  4  {preempted}", f"cached_tokens  counter  1  4  {cached}", f"kv_used_ratio  gauge  -  2  {kv}", "cached_tokens  gauge  1  9  7", f"counter_resets_count  counter  1  4  {resets}")
    return {"metrics": PAGE + "\n".join(page), "steps": STEPS + "\n".join(steps), "requests": REQUESTS + "\n".join(requests)}


RULE = Rule(
    id="data.counters_disagree",
    question="Does the engine's metrics page count what its engine core did?",
    needs=(
        Need("steps", ("process", "step", "end_ns"), "run the engine with the probe", ("dp_rank", "kv_used_blocks_count", "kv_total_blocks_count", "kv_cached_blocks_count", "kv_freed_blocks_count", "preempted_count", "recomputed_tokens")),
        Need("requests", (), "run the engine with the probe", ("first_token_ns", "finish_ns", "prompt_tokens", "cached_tokens", "preemptions_count", "aborted_by", "client_index")),
        Need("metrics", (), "read the metrics page too: pellucid run --metrics URL -- …", ("metric", "kind", "dp_rank", "start_ns", "end_ns", "value")),
    ),
    views=("page_kv_use",), evidence="""
        WITH t AS (SELECT min(start_ns) AS from_ns, max(end_ns) AS until_ns FROM metrics WHERE kind = 'counter'),
             p AS (SELECT sum(value) FILTER (metric = 'preempted_count') AS page_preempted_count, sum(value) FILTER (metric = 'cached_tokens') AS page_cached_tokens,
                          sum(value) FILTER (metric = 'counter_resets_count') AS counter_resets_count FROM metrics WHERE kind = 'counter'),
             k AS (SELECT avg(page_ratio) AS page_kv_used_ratio, avg(most_ratio) AS kv_used_ratio, avg(cached_ratio) AS kv_cached_ratio, avg(off_ratio) AS kv_off_ratio FROM page_kv_use),
             s AS (SELECT sum(preempted_count) AS preempted_count, sum(recomputed_tokens) AS recomputed_tokens FROM span_steps, t WHERE end_ns BETWEEN from_ns AND until_ns),
             r AS (SELECT sum(cached_tokens) AS cached_tokens, sum(prompt_tokens) FILTER (cached_tokens IS NOT NULL) AS prompt_tokens FROM span_requests, t WHERE first_token_ns BETWEEN from_ns AND until_ns),
             f AS (SELECT count(DISTINCT client_index) AS frontends_count, sum(preemptions_count) FILTER (aborted_by IN ('client') OR finish_ns IS NULL) AS untold_count FROM span_requests)
        SELECT * FROM p, k, s, r, f
    """,
    judge=judge, limits=(MISSING, FEW, OFF), moves=(), falsified_by="the two agree when they are recorded again over the same time", explained_by=(),
    cases=(
        Case("half of the preemptions", "found", _case(50, 400, 0.1), says="the metrics page says 50 preemptions where there were 100; it does not say that 500 tokens"),
        Case("more tokens found cached", "found", _case(100, 460, 0.1), says="says 460 prompt tokens were found cached where 400 of 1,000 were"),
        Case("a fuller cache", "found", _case(100, 400, 0.95, STEADY), says="says 95% of the KV blocks are in use where at most 50% were held"),
        Case("all is as it was; freed blocks carry prefixes", "clear", _case(99, 400, 0.1, ("1  e  1  1  20  100  95  0  40  0", *BOTH[1:])),
             says="10% of the KV blocks are in use where at most 20% were held, and 95% carry a prefix: freed blocks that do count as free; 99 preemptions where there were 100"),
        Case("requests that never came back", "clear", _case(90, 400, 0.5, STEADY, (*SERVED, "1  -  9  50  -  6  client  0", "1  -  -  50  -  5  -  0")),
             says="90 preemptions where there were 100 (11 of requests that never came back, which it does not learn)"),
        Case("one of two frontends", "clear", _case(50, 200, 0.95, STEADY, ("5  3  3  100  40  9  -  0", "5  3  3  100  40  9  -  1")), says="of 2 frontends each counts its own"),
        Case("two frontends, and more than there was", "found", _case(120, 400, 0.95, STEADY, (*SERVED, "1  9  9  9  0  0  -  1")), says="the metrics page says 120 preemptions"),
        Case("two frontends that answer in turn", "not_applicable", _case(120, 400, 0.95, STEADY, (*SERVED, "1  9  9  9  0  0  -  1"), 3), says="counters fell 3 times"),
        Case("no page", "not_applicable", _case(0, 0, 0) | {"metrics": PAGE}, says="nothing to compare"),
        Case("no steps", "blind", {"metrics": PAGE + "preempted_count  counter  1  4  9"}, says="steps.end_ns"),
    ),
)  # fmt: skip
