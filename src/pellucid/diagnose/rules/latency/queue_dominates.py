"""Most of the time to the first token is the queue: seen from the metrics page.

Looks like
    The mean time in the waiting queue is more than half of the mean TTFT, and long enough for a user to feel.

Why it costs
    Nothing is computed for a request that waits. The prompt itself takes the smaller part.

Not this when
    The queue is short in absolute terms. Where a setting keeps requests out of the batch, or the KV cache is full, that
    is the cause, and this is its symptom; without either, more is asked of the engine than it can do.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
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

SHARE = Limit(0.5, "ratio", "chosen: then nothing done to the prompt itself can halve TTFT")
FELT = Limit(100e6, "ns", "chosen: a tenth of a second is about where people begin to notice a wait")


def judge(row: Row) -> Verdict:
    queued, firsts = row["queued_count"], row["first_tokens_count"]
    if queued is None or firsts is None:
        return blind("the page has no times in the queue, or none to the first token",
                     "install pellucid-probe beside the engine and start it with pellucid run: requests have all their moments")  # fmt: skip
    if not queued or not firsts:
        return not_applicable("no request got its first token")
    queue_ns, ttft_ns = row.number("queue_ns") / queued, row.number("ttft_ns") / firsts
    if queue_ns < FELT.value or queue_ns < SHARE.value * ttft_ns:
        return clear(f"requests waited {duration(queue_ns)} of a TTFT of {duration(ttft_ns)}, on average")
    share = min(1.0, queue_ns / ttft_ns)
    return found(
        f"requests waited {duration(queue_ns)} in the queue, {percent(share)} of a TTFT of {duration(ttft_ns)}, on average",
        Gain("ttft_mean_ns", 0.0, share, "end_to_end"),
        {"engine_replicas": row.number("replicas_count") + 1},
    )


HEAD = """process  metric  kind  value
          """


def _times(queue_ns: float, ttft_ns: float, count: int = 10) -> dict[str, str]:
    """Sums of the means given, over `count` requests and for TTFT one more, with a bucket that must not count."""
    lines = [f"a  {m}  {kind}  {v}" for m, mean, n in (("queue_ns", queue_ns, count), ("ttft_ns", ttft_ns, count + bool(count)))
             for kind, v in (("sum", mean * n), ("count", n), ("bucket", 7))]  # fmt: skip
    return {"metrics": HEAD + "\n".join(lines)}


RULE = Rule(
    id="latency.queue_dominates",
    question="Is most of the time to the first token spent waiting?",
    needs=(Need("metrics", ("process", "metric", "kind", "value"), "read the engine's metrics page: pellucid attach URL"),),
    evidence="""
        SELECT sum(value) FILTER (metric = 'queue_ns' AND kind = 'sum')     AS queue_ns,
               sum(value) FILTER (metric = 'queue_ns' AND kind = 'count')   AS queued_count,
               sum(value) FILTER (metric = 'ttft_ns' AND kind = 'sum')      AS ttft_ns,
               sum(value) FILTER (metric = 'ttft_ns' AND kind = 'count')    AS first_tokens_count,
               count(DISTINCT process)                                      AS replicas_count
        FROM metrics
    """,
    judge=judge,
    limits=(SHARE, FELT),
    moves=(Move("engine_replicas", "raise", "another copy of the weights and another device"),),
    falsified_by="queue_mean_ns does not fall after the move",
    explained_by=("queue.waiting_with_kv_free", "kv.cache_full"),
    cases=(
        Case("three seconds of four", "found", _times(3e9, 4e9), says="waited 3.0 s in the queue, 75% of a TTFT of 4.0 s"),
        Case("most of a short TTFT", "clear", _times(9e7, 1e8), says="90 ms of a TTFT of 100 ms"),
        Case("a third of a long one", "clear", _times(1e9, 3e9), says="1.0 s of a TTFT of 3.0 s"),
        Case("nobody came", "not_applicable", _times(0, 0, 0)),
        Case("an engine without a queue time", "blind", {"metrics": HEAD + "a  ttft_ns  count  4"}, says="no times in the queue"),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
