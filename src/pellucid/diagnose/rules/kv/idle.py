"""Memory is set aside for a KV cache that is never half used, and what lies in the free part is never found again.

Looks like
    KV use stays low, with as many requests running as may run, or over hours. The prefix cache gives next to nothing.

Why it costs
    The engine takes the memory when it starts, and nothing else can have it: another model, a second engine, larger
    batches of this one.

Not this when
    The recording is short or idle, and the engine could have run more; the free blocks hold prefixes that requests find; or
    the idle part is too small to be of use.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import S_NS, duration, percent, size
from pellucid.diagnose.rule import (
    Case,
    Gain,
    Limit,
    Move,
    Need,
    Row,
    Rule,
    Verdict,
    blind,
    clear,
    found,
    not_applicable,
)

GIB = 2**30
LONG = Limit(3600 * S_NS, "ns", "chosen: the least time in steps that is likely to hold a peak of a service's load; a day is better")
AT_CAP = Limit(0.5, "ratio", "chosen: running at the cap for most of the time, the engine cannot hold more, whatever comes")
KEEP = Limit(2, "times", "chosen: twice the highest use seen, for prompts and outputs longer than those recorded")
PROFIT = Limit(0.05, "ratio", "chosen: from a twentieth of the prompt tokens on, the free blocks earn their place as a prefix cache")
WORTH = Limit(2 * GIB, "bytes", "two bytes for each weight of a model of a billion parameters: the least that is worth having")


def judge(row: Row) -> Verdict:
    at_cap = row.number("at_cap_ns") / row.number("busy_ns")
    if row.number("span_busy_ns") < LONG.value and at_cap < AT_CAP.value:
        return not_applicable(f"{duration(row.number('span_busy_ns'))} in steps, the cap reached in {percent(at_cap)} of them: "
                              "more may come at another time")  # fmt: skip
    cached, prompt = row["cached_tokens"], row["prompt_tokens"]
    if cached is not None and prompt and cached / prompt >= PROFIT.value:
        return clear(f"the prefix cache gave {percent(cached / prompt)} of the prompt tokens: free blocks are not idle")
    used, total = row.number("kv_used_max_count"), row.number("kv_total_blocks_count")
    keep = max(math.ceil(KEEP.value * used), row["context_blocks_count"] or 0)     # the engine starts with no fewer
    if keep >= total:
        return clear(f"{percent(used / total)} of the KV blocks were used at once, and {keep:.0f} of {total:.0f} are to be kept")
    if row["kv_cache_bytes"] is None:
        return blind("how many bytes the KV cache takes is not known", "run the engine with a probe that writes kv_cache_bytes")
    idle_bytes = row.number("kv_cache_bytes") * (1 - keep / total)
    if idle_bytes < WORTH.value:
        return clear(f"at most {percent(used / total)} of the KV blocks were used, but that leaves {size(idle_bytes)} idle: too little to use")
    return found(
        f"never more than {used:.0f} of {total:.0f} KV blocks were held, and the prefix cache gave next to nothing: {size(idle_bytes)} "
        f"would be left if {keep:.0f} were kept; the cap was reached in {percent(at_cap)} of the busy time",
        Gain("kv_cache_bytes", 1 - keep / total, 1 - used / total, "local"),
        {"kv_cache_limit": float(max(keep, 1))},
    )


HEAD = "repeat  start_ns  end_ns  running_count  sequence_cap_count  kv_used_blocks_count  kv_total_blocks_count\n"
PROMPTS = {"requests": "prompt_tokens  cached_tokens\n 100  0"}


def _steps(line: str, gib: str = "4", context: str = "-") -> dict[str, str]:
    return {"steps": HEAD + line, "sources": f"kv_cache_bytes  context_blocks_count\n -  -\n {gib}  {context}"} | PROMPTS


def _gib(count: float) -> str:
    return str(int(count * GIB))


RULE = Rule(
    id="kv.idle",
    question="Is memory set aside for KV blocks that are never used?",
    needs=(
        Need("steps", ("start_ns", "end_ns", "running_count", "sequence_cap_count", "kv_used_blocks_count", "kv_total_blocks_count"),
             "run the engine with the probe: its engine core writes the steps"),
        Need("sources", (), "run the engine with the probe", ("kv_cache_bytes", "context_blocks_count")),
        Need("requests", (), "run the engine with the probe", ("prompt_tokens", "cached_tokens")),
    ),
    evidence="""
        SELECT sum(end_ns - start_ns)                                                                  AS busy_ns,
               coalesce(sum(end_ns - start_ns) FILTER (running_count >= sequence_cap_count), 0)        AS at_cap_ns,
               (SELECT sum(end_ns - start_ns) FROM span_steps)                                         AS span_busy_ns,
               max(kv_used_blocks_count)                                                               AS kv_used_max_count,
               max(kv_total_blocks_count)                                                              AS kv_total_blocks_count,
               (SELECT max(kv_cache_bytes) FROM span_sources)                                          AS kv_cache_bytes,
               (SELECT max(context_blocks_count) FROM span_sources)                                    AS context_blocks_count,
               (SELECT sum(cached_tokens) FROM requests)                                               AS cached_tokens,
               (SELECT sum(prompt_tokens) FROM requests WHERE cached_tokens IS NOT NULL)               AS prompt_tokens
        FROM steps
    """,
    judge=judge, limits=(LONG, AT_CAP, KEEP, PROFIT, WORTH),
    moves=(Move("kv_cache_limit", "lower", "longer prompts or outputs than those recorded may wait for blocks", "kv_total_blocks_count"),),
    falsified_by="requests wait for KV blocks after the move, or cached_tokens falls",
    explained_by=("queue.sequence_cap_binding",),
    cases=(
        Case("at the cap, a quarter used", "found", _steps("9  0  100  4  4  25  100", _gib(4)), says="2.0 GiB would be left"),
        Case("an hour, far below the cap", "found", _steps("1  0  3600e9  1  256  10  100", _gib(40)), says="never more than 10 of 100"),
        Case("a long context is to fit", "found", _steps("9  0  100  4  4  1  100", _gib(4), "40"), says="if 40 were kept"),
        Case("nothing held at the end of a step", "found", _steps("9  0  100  4  4  0  100", _gib(4)), says="4.0 GiB would be left"),
        Case("small, so nothing to gain", "clear", _steps("9  0  100  4  4  1  100", _gib(1)), says="1003.5 MiB idle"),
        Case("half used", "clear", _steps("9  0  100  4  4  50  100", _gib(40)), says="50% of the KV blocks were used at once, and 100 of 100"),
        Case("free blocks hold prefixes", "clear",
             _steps("9  0  100  4  4  10  100", _gib(40)) | {"requests": "prompt_tokens  cached_tokens\n 100  5\n 100  -"}, says="gave 5.0%"),
        Case("a minute with little to do", "not_applicable", _steps("1  0  3599e9  1  256  10  100", _gib(40)), says="the cap reached in 0%"),
        Case("bytes are not known", "blind", _steps("9  0  100  4  4  10  100", "-"), says="how many bytes"),
        Case("no KV figures", "blind", _steps("9  0  100  4  4  -  100"), says="kv_used_blocks_count"),
    ),
)  # fmt: skip
