"""One replica is slower than the others that serve beside it: seen from their metrics pages.

Looks like
    The mean TTFT or ITL of one replica is far above the median of the others, over the same time.

Why it costs
    Every request that is sent there waits longer, and the fleet's tail is that replica.

Not this when
    All are slow alike, or a replica had too few requests to tell. Where the odd one also got more requests than the
    others, look at the router first.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Need, Row, Rule, Verdict, clear, found, not_applicable

ODD = Limit(1.5, "times", "chosen: replicas of one deployment differ by some tens of percent as requests differ; half as slow again is another matter")
ENOUGH = Limit(10, "requests", "chosen: the mean of ten requests moves by less than a third where they vary by their own size")


def judge(row: Row) -> Verdict:
    replicas = row["replicas_count"]
    if not replicas or replicas < 2:
        return not_applicable("it takes two replicas with ten requests each to compare")
    ttft, itl = row["ttft_times_ratio"], row["itl_times_ratio"]
    worst = max(ttft or 0, itl or 0)
    name = row.text("odd_replica")
    if worst < ODD.value:
        return clear(f"of {replicas:.0f} replicas the slowest, {name}, has {worst:.2f} times the latency of the others")
    by_ttft = worst == ttft
    word, mine = ("TTFT", row.number("ttft_mean_ns")) if by_ttft else ("ITL", row.number("itl_mean_ns"))
    share = row.number("requests_count") / row.number("all_requests_count")
    slowed = share * (1 - 1 / worst) / (share + (1 - share) / worst)
    return found(
        f"{name} has {worst:.1f} times the {word} of the others ({duration(mine)}; {replicas:.0f} replicas), with "
        f"{percent(share)} of the requests",
        Gain("ttft_mean_ns" if by_ttft else "itl_mean_ns", 0.0, slowed, "end_to_end"), {},
    )


HEAD = """process  metric  kind  value
          """


def _replicas(*each: tuple[str, float, float, int]) -> dict[str, str]:
    """Name, mean TTFT and ITL in ms, requests; ten tokens each."""
    lines = [f"{name}  {m}  {kind}  {v}" for name, ttft, itl, n in each
             for m, kind, v in (("ttft_ns", "sum", ttft * n * 1e6), ("ttft_ns", "count", n), ("ttft_ns", "bucket", 5),
                                ("itl_ns", "sum", itl * n * 1e7), ("itl_ns", "count", 10 * n))]  # fmt: skip
    return {"metrics": HEAD + "\n".join(lines)}


RULE = Rule(
    id="fleet.replica_odd",
    question="Is one replica slower than the others?",
    needs=(Need("metrics", ("process", "metric", "kind", "value"), "read every replica: pellucid why --prometheus URL"),),
    evidence=f"""
        WITH sums AS (SELECT process,
                          sum(value) FILTER (metric = 'ttft_ns' AND kind = 'sum')    AS ttft_ns,
                          sum(value) FILTER (metric = 'ttft_ns' AND kind = 'count')  AS requests_count,
                          sum(value) FILTER (metric = 'itl_ns' AND kind = 'sum')
                              / nullif(sum(value) FILTER (metric = 'itl_ns' AND kind = 'count'), 0) AS itl_mean_ns
                      FROM metrics GROUP BY process),
             replica AS (SELECT *, ttft_ns / requests_count AS ttft_mean_ns FROM sums WHERE requests_count >= {ENOUGH.value}),
             others AS (SELECT a.process, nullif(median(b.ttft_mean_ns), 0) AS ttft_others_ns, nullif(median(b.itl_mean_ns), 0) AS itl_others_ns
                        FROM replica a JOIN replica b ON a.process <> b.process GROUP BY a.process),
             beside AS (SELECT *, ttft_mean_ns / ttft_others_ns AS ttft_times, itl_mean_ns / itl_others_ns AS itl_times
                        FROM replica JOIN others USING (process))
        SELECT count(*)                                                             AS replicas_count,
               arg_max(process, greatest(ttft_times, itl_times))                    AS odd_replica,
               arg_max(ttft_times, greatest(ttft_times, itl_times))                 AS ttft_times_ratio,
               arg_max(itl_times, greatest(ttft_times, itl_times))                  AS itl_times_ratio,
               arg_max(ttft_mean_ns, greatest(ttft_times, itl_times))               AS ttft_mean_ns,
               arg_max(itl_mean_ns, greatest(ttft_times, itl_times))                AS itl_mean_ns,
               arg_max(requests_count, greatest(ttft_times, itl_times))             AS requests_count,
               sum(requests_count)                                                  AS all_requests_count
        FROM beside
    """,
    judge=judge,
    limits=(ODD, ENOUGH),
    moves=(),
    falsified_by="another replica on the same machine, or this one after a restart, is as slow",
    explained_by=(),
    cases=(
        Case("one of three is slow to the first token", "found", _replicas(("a", 100, 10, 10), ("b", 300, 11, 20), ("c", 100, 10, 10)),
             says="b has 3.0 times the TTFT of the others (300 ms; 3 replicas), with 50% of the requests"),
        Case("one of two is slow between tokens", "found", _replicas(("a", 100, 10, 10), ("b", 101, 20, 10)), says="b has 2.0 times the ITL of the others (20 ms; 2 replicas)"),
        Case("all are alike", "clear", _replicas(("a", 100, 10, 10), ("b", 120, 10, 30), ("c", 110, 10, 10)), says="the slowest, b, has 1.14"),
        Case("the slow one had nine requests", "not_applicable", _replicas(("a", 100, 10, 10), ("b", 900, 10, 9)), says="two replicas"),
        Case("one replica", "not_applicable", _replicas(("a", 100, 10, 10))),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
