"""One replica is unlike the others that serve the same model beside it: seen from their metrics pages.

Looks like
    The mean TTFT or ITL of one replica is far above the median of the others, over the same time; or more of its requests
    fail, it has a queue that they have not, its KV cache is fuller, or fewer prompt tokens are found cached.

Why it costs
    Every request that is sent there waits longer or fails, and the fleet's tail is that replica.

Not this when
    All are alike, they serve other models, or a replica had too few requests to tell. Where the odd one also got more
    requests than the others, or other ones (its cache is fuller, or finds less), look at the router first.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from collections.abc import Iterator

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Need, Row, Rule, Verdict, clear, found, not_applicable

ODD = Limit(1.5, "times", "chosen: replicas of one deployment differ by some tens of percent as requests differ; half as slow again is another matter")
ENOUGH = Limit(10, "requests", "chosen: the mean of ten requests moves by less than a third where they vary by their own size")
FAILED = Limit(0.05, "ratio", "chosen: one request in twenty more than the others lose; what is promised to users is mostly 99 % or more")
SEVERAL = Limit(5, "requests", "chosen: fewer failures may be one client's, tried again")
FELT = Limit(100e6, "ns", "chosen: a tenth of a second is about where people begin to notice a wait")
OTHER = Limit(0.3, "ratio", "chosen: a share of the KV cache, or of prompt tokens found cached, that random routing of some ten requests does not make")


def judge(row: Row) -> Verdict:
    replicas = row["replicas_count"]
    if not replicas:
        seen, models, nameless = row["seen_count"] or 0, row["models_count"] or 0, row["nameless_count"] or 0
        unnamed = f"; {nameless:.0f} do not say their model" if nameless else ""
        return not_applicable(f"it takes two replicas of one model with ten requests each to compare: here are {seen:.0f} of {models:.0f} models{unnamed}")
    name, share = row.text("odd_replica"), row.number("requests_count") / row.number("all_requests_count")
    odd = list(_odd(row, share))
    if not odd:
        worst = max(row["ttft_times_ratio"] or 0, row["itl_times_ratio"] or 0)
        return clear(f"{replicas:.0f} replicas of one model are alike; the oddest, {name}, has {worst:.2f} times the latency of the others")
    return found(f"{name} has {', '.join(says for says, _ in odd)}; {replicas:.0f} replicas of {row.text('model')}, and {percent(share)} of the requests are its", odd[0][1], {})


def _odd(row: Row, share: float) -> Iterator[tuple[str, Gain]]:
    """What it has and the others have not, and what the fleet loses by that."""
    failed, usual = row["failed_ratio"], row["others_failed_ratio"]
    if failed is not None and usual is not None and failed - usual >= FAILED.value and row.number("failed_count") >= SEVERAL.value:
        yield f"{percent(failed)} failed requests (the others {percent(usual)})", Gain("output_tokens_per_s", 0.0, share * (failed - usual), "end_to_end")
    for word, metric, times in (("TTFT", "ttft_mean_ns", row["ttft_times_ratio"]), ("ITL", "itl_mean_ns", row["itl_times_ratio"])):
        if times is not None and times >= ODD.value:
            yield f"{times:.1f} times the {word} of the others ({duration(row.number(metric))})", Gain(metric, 0.0, share * (times - 1) / (share * times + 1 - share), "end_to_end")
    queue, usual = row["queue_mean_ns"], row["others_queue_mean_ns"]
    if queue is not None and usual is not None and queue - usual >= FELT.value and queue >= ODD.value * usual:
        yield f"{duration(queue)} in its queue (the others {duration(usual)})", Gain("queue_mean_ns", 0.0, share * (queue - usual) / (share * queue + (1 - share) * usual), "end_to_end")
    used, usual = row["kv_used_ratio"], row["others_kv_used_ratio"]
    if used is not None and usual is not None and used - usual >= OTHER.value:
        yield f"{percent(used)} of its KV cache in use (the others {percent(usual)})", Gain("ttft_mean_ns", 0.0, 0.0, "local")
    hit, usual = row["prefix_hit_ratio"], row["others_prefix_hit_ratio"]
    if hit is not None and usual is not None and usual - hit >= OTHER.value:
        yield f"{percent(hit)} of its prompt tokens found cached (the others {percent(usual)})", Gain("ttft_mean_ns", 0.0, 0.0, "local")


HEAD = "process  engine  model  metric  kind  part  value\n"
SLOW, A, B = "b e m 300 11 20", "a e m 100 10 10", "b e m 100 10 10"


def _pages(*each: str, more: tuple[str, ...] = ()) -> dict[str, str]:
    """Process, engine, model, mean TTFT and ITL in ms, requests of ten tokens each; and further rows."""
    lines = [f"{who} {metric}" for one in each for *names, ttft, itl, n in (one.split(),) for who in (" ".join(names),)
             for metric in (f"ttft_ns sum - {float(ttft) * int(n) * 1e6}", f"ttft_ns count - {n}", "ttft_ns bucket - 5",
                            f"itl_ns sum - {float(itl) * int(n) * 1e7}", f"itl_ns count - {10 * int(n)}")]  # fmt: skip
    return {"metrics": HEAD + "\n".join("  ".join(line.split()) for line in (*lines, *more))}


def _both(metric: str, a: object, b: object) -> tuple[str, str]:
    return f"a e m {metric} {a}", f"b e m {metric} {b}"


RULE = Rule(
    id="fleet.replica_odd",
    question="Is one replica unlike the others?",
    needs=(Need("metrics", ("process", "metric", "kind", "value"), "read every replica: pellucid why --prometheus URL", ("engine", "model", "part")),),
    views=("replicas",),
    evidence=f"""
        WITH r AS (SELECT *, concat_ws(' ', engine, model) AS alike FROM replicas WHERE requests_count >= {ENOUGH.value}),
             o AS (SELECT a.process, count(*) + 1 AS replicas_count, sum(b.requests_count) AS others_count, median(b.ttft_mean_ns) AS ttft_ns, median(b.itl_mean_ns) AS itl_ns,
                          median(b.failed_ratio) AS others_failed_ratio, median(b.queue_mean_ns) AS others_queue_mean_ns, median(b.kv_used_ratio) AS others_kv_used_ratio,
                          median(b.prefix_hit_ratio) AS others_prefix_hit_ratio
                   FROM r a JOIN r b USING (alike) WHERE a.model IS NOT NULL AND a.process <> b.process GROUP BY a.process),
             d AS (SELECT process AS odd_replica, model, replicas_count, requests_count, requests_count + others_count AS all_requests_count, ttft_mean_ns, itl_mean_ns,
                          ttft_mean_ns / nullif(ttft_ns, 0) AS ttft_times_ratio, itl_mean_ns / nullif(itl_ns, 0) AS itl_times_ratio, failed_count, failed_ratio, others_failed_ratio,
                          queue_mean_ns, others_queue_mean_ns, kv_used_ratio, others_kv_used_ratio, prefix_hit_ratio, others_prefix_hit_ratio FROM r JOIN o USING (process)),
             w AS (SELECT * FROM d ORDER BY greatest(
                       ttft_times_ratio / {ODD.value}, itl_times_ratio / {ODD.value}, least((failed_ratio - others_failed_ratio) / {FAILED.value}, failed_count / {SEVERAL.value}),
                       least((queue_mean_ns - others_queue_mean_ns) / {FELT.value}, queue_mean_ns / nullif(others_queue_mean_ns, 0) / {ODD.value}),
                       (kv_used_ratio - others_kv_used_ratio) / {OTHER.value}, (others_prefix_hit_ratio - prefix_hit_ratio) / {OTHER.value}) DESC NULLS LAST, odd_replica LIMIT 1)
        SELECT w.*, n.* FROM (SELECT count(*) AS seen_count, count(DISTINCT model) AS models_count, count(*) - count(model) AS nameless_count FROM r) n LEFT JOIN w ON true
    """,
    judge=judge, limits=(ODD, ENOUGH, FAILED, SEVERAL, FELT, OTHER), moves=(),
    falsified_by="another replica on the same machine, or this one after a restart, differs as much from the others",
    explained_by=(),
    cases=(
        Case("one of three is slow to the first token", "found", _pages(A, SLOW, "c e m 100 10 10"), says="b has 3.0 times the TTFT of the others (300 ms); 3 replicas of m, and 50% of the requests are its"),
        Case("one of two is slow between tokens", "found", _pages(A, "b e m 101 20 10"), says="b has 2.0 times the ITL of the others (20 ms); 2 replicas"),
        Case("all are alike", "clear", _pages(A, "b e m 120 10 30", "c e m 110 10 10"), says="the oddest, b, has 1.14"),
        Case("the slow one had nine requests", "not_applicable", _pages(A, "b e m 900 10 9"), says="here are 1 of 1 models"),
        Case("a larger model is slower", "clear", _pages(A, B, "c e large 800 80 10"), says="2 replicas of one model are alike"),
        Case("two models, one replica each", "not_applicable", _pages(A, "b e large 800 80 10"), says="here are 2 of 2 models"),
        Case("another engine", "not_applicable", _pages(A, "b f m 800 80 10"), says="here are 2 of 1 models"),
        Case("no page names its model", "not_applicable", _pages("a e - 100 10 10", "b e - 800 80 10"), says="2 do not say their model"),
        Case("one fails, and fast", "found", _pages(A, B, more=_both("http_responses_count counter 5xx", 0, 6) + _both("http_responses_count counter 2xx", 50, 4)), says="b has 60% failed requests (the others 0%)"),
        Case("few failures hide no slow one", "found", _pages(A, SLOW, "c e m 100 10 10", more=("c e m failed_count counter - 4", "c e m finished_count counter stop 6", "a e m finished_count counter error 0", "a e m finished_count counter stop 10")), says="b has 3.0 times"),
        Case("one has a queue, a fuller cache and finds less", "found", _pages(A, B, more=_both("queue_ns sum -", 1e7, 2e9) + _both("queue_ns count -", 10, 10) + _both("kv_used_ratio gauge -", 0.4, 0.9)
             + _both("prefix_hit_tokens counter -", 60, 10) + _both("prefix_queried_tokens counter -", 100, 100)), says="b has 200 ms in its queue (the others 1.0 ms), 90% of its KV cache in use (the others 40%), 10% of its prompt tokens found cached (the others 60%)"),
        Case("one replica", "not_applicable", _pages(A)),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
