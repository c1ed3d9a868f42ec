"""The engine's metrics page tells another story than its requests do: dashboards built on it mislead.

Looks like
    The page's latency histograms look well while users complain. Requests that clients gave up are in none of them, so
    the slowest ones are missing; or the page's TTFT begins or ends elsewhere than the request's own.

Why it costs
    Alerts stay silent, autoscalers see less load than there is, and settings are chosen by a mean of those who stayed.

Not this when
    Page and requests were not recorded together, few requests ended, or they agree but for what lay between two pages. Of
    several frontends one may have answered for itself alone, or each in turn: then its page is not that of the engine.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import MS_NS, duration
from pellucid.diagnose.rule import Case, Gain, Limit, Need, Row, Rule, Verdict, clear, found, not_applicable

MISSING = Limit(0.05, "ratio", "chosen: one request in twenty missing moves a 95th percentile to another request altogether")
OFF = Limit(0.2, "ratio", "chosen: tokenisation and delivery, which one of the two may leave out, are a few percent of a TTFT")
APART = Limit(50 * MS_NS, "ns", "chosen: parsing and delivery take some 10 ms on a busy host, and less than this nobody acts on")
ENOUGH = Limit(20, "requests", "chosen: one request more or less at the edge of a page is then a twentieth at most")


def judge(row: Row) -> Verdict:
    finished = row["page_finished_count"]
    if finished is None:
        return not_applicable("no metrics page was read beside the probe: there is nothing to compare")
    ended = row.number("ended_count")
    if ended < ENOUGH.value:
        return not_applicable(f"{ended:.0f} requests ended between the pages: too few to compare")
    frontends, resets, own = row.number("frontends_count"), row["counter_resets_count"], row.number("frontend_finished_count")
    if frontends > 1 and resets:
        return not_applicable(f"{frontends:.0f} frontends answer with a page each in turn (counters fell {resets:.0f} times): its increases are nobody's")
    missing, gave_up = ended - finished, row.number("gave_up_count")
    if missing / ended >= MISSING.value and frontends > 1 and abs(own - finished) < MISSING.value * own:
        return clear(f"the page is that of one of {frontends:.0f} frontends, and counts its {own:.0f} of {ended:.0f} requests that ended: the others have pages of their own")
    if missing / ended >= MISSING.value:
        wait = row["gave_up_mean_ns"]
        waited = "" if wait is None else f", after {duration(wait)} (mean)"
        return found(
            f"the metrics page counts {finished:.0f} of {ended:.0f} requests that ended; {gave_up:.0f} were given up by their "
            f"clients{waited}, which its latency histograms leave out: take latency from the requests",
            Gain("e2e_mean_ns", 0.0, 0.0, "local"), {},
        )
    page_ns, ours_ns = row["page_ttft_mean_ns"], row["ttft_mean_ns"]
    if page_ns is None or not ours_ns:
        return clear(f"the metrics page counts {finished:.0f} of {ended:.0f} requests that ended")
    off_ns = abs(page_ns - ours_ns)
    if off_ns < max(OFF.value * ours_ns, APART.value):
        return clear(f"the metrics page counts {finished:.0f} of {ended:.0f} requests that ended, and its TTFT is {duration(off_ns)} off")
    return found(
        f"the metrics page says a mean TTFT of {duration(page_ns)}, the requests themselves say {duration(ours_ns)}: it begins or "
        "ends elsewhere, or leaves some out",
        Gain("ttft_mean_ns", 0.0, 0.0, "local"), {},
    )


HEAD = "metric  kind  start_ns  end_ns  value\n"
OTHER = ("15  0  9e6  30e6  -",)
REQUESTS = "repeat  arrival_ns  first_delivered_ns  finish_ns  aborted_by  client_index\n"


def _both(page: tuple[str, ...], *requests: str, second: tuple[str, ...] = ()) -> dict[str, str]:
    """`second`: requests of another frontend."""
    return {"metrics": HEAD + "\n".join(page), "requests": REQUESTS + "\n".join([*(f"{r}  0" for r in requests), *(f"{r}  1" for r in second)])}


def _page(finished: int, ttft_ns: float) -> tuple[str, ...]:
    return (f"finished_count  counter  0  1000e6  {finished}", f"ttft_ns  sum  0  1000e6  {ttft_ns * 40}", "ttft_ns  count  0  1000e6  40",
            "ttft_ns  bucket  0  1000e6  9", "finished_count  gauge  0  1000e6  9")  # fmt: skip


RULE = Rule(
    id="data.metrics_disagree",
    question="Does the engine's metrics page tell the same as its requests?",
    needs=(
        Need("requests", ("arrival_ns", "finish_ns"), "run the engine with the probe", ("first_delivered_ns", "aborted_by", "client_index")),
        Need("metrics", (), "read the metrics page too: pellucid run --metrics URL -- …", ("metric", "kind", "start_ns", "end_ns", "value")),
    ),
    evidence="""
        WITH page AS (SELECT metric, sum(value) FILTER (kind = 'counter') AS grown,
                             sum(value) FILTER (kind = 'sum') / nullif(sum(value) FILTER (kind = 'count'), 0) AS mean_ns
                      FROM metrics GROUP BY metric),
             r AS (SELECT * FROM requests WHERE finish_ns >= (SELECT min(start_ns) FROM metrics WHERE metric = 'finished_count')
                   AND finish_ns < (SELECT max(end_ns) FROM metrics WHERE metric = 'finished_count'))
        SELECT (SELECT max(grown) FROM page WHERE metric = 'finished_count')                AS page_finished_count,
               (SELECT max(grown) FROM page WHERE metric = 'counter_resets_count')          AS counter_resets_count,
               count(DISTINCT client_index)                                                 AS frontends_count,
               (SELECT arg_min(n, abs(n - (SELECT max(grown) FROM page WHERE metric = 'finished_count')))
                FROM (SELECT count(*) FILTER (aborted_by IS DISTINCT FROM 'client') AS n FROM r GROUP BY client_index)) AS frontend_finished_count,
               count(*)                                                                     AS ended_count,
               count(*) FILTER (aborted_by = 'client')                                      AS gave_up_count,
               avg(finish_ns - arrival_ns) FILTER (aborted_by = 'client')                   AS gave_up_mean_ns,
               (SELECT max(mean_ns) FROM page WHERE metric = 'ttft_ns')                     AS page_ttft_mean_ns,
               avg(first_delivered_ns - arrival_ns)                                         AS ttft_mean_ns
        FROM r
    """,
    judge=judge, limits=(MISSING, OFF, APART, ENOUGH), moves=(),
    falsified_by="the two agree when they are recorded again over the same time",
    explained_by=(),
    cases=(
        Case("two of forty went away", "found", _both(_page(38, 9e6), "37  0  9e6  30e6  -", "1  0  9e6  0  engine", "2  0  -  500e6  client", "9  0  9e6  1000e6  -"),
             says="counts 38 of 40 requests that ended; 2 were given up by their clients, after 500 ms (mean)"),
        Case("the page's TTFT is longer", "found", _both(_page(40, 300e6), "40  0  200e6  400e6  -"), says="a mean TTFT of 300 ms, the requests themselves say 200 ms"),
        Case("one of forty went away", "clear", _both(_page(39, 9e6), "39  0  9e6  30e6  -", "1  0  -  500e6  client"), says="its TTFT is 0 ms off"),
        Case("a little shorter: the first delivery is not in it", "clear", _both(_page(40, 9e6), "40  0  14e6  30e6  -"), says="5.0 ms off"),
        Case("no TTFT on the page", "clear", _both(_page(40, 9e6)[:1], "40  0  10e6  30e6  -"), says="counts 40 of 40"),
        Case("the page of one of two frontends", "clear", _both(_page(25, 9e6), "25  0  9e6  30e6  -", "2  0  -  30e6  client", second=OTHER), says="one of 2 frontends, and counts its 25 of 42 requests"),
        Case("two frontends, and the page is neither's", "found", _both(_page(20, 9e6), "25  0  9e6  30e6  -", "2  0  -  30e6  client", second=OTHER), says="counts 20 of 42"),
        Case("two frontends that answer in turn", "not_applicable", _both((*_page(25, 9e6), "counter_resets_count  counter  0  1000e6  3"), "25  0  9e6  30e6  -", "2  0  -  30e6  client", second=OTHER), says="counters fell 3 times"),
        Case("few requests", "not_applicable", _both(_page(9, 9e6), "19  0  9e6  30e6  -"), says="19 requests"),
        Case("no page", "not_applicable", {"requests": REQUESTS + "40  0  9e6  30e6  -  0"}, says="nothing to compare"),
        Case("no requests", "blind", {"metrics": HEAD + "finished_count  counter  0  1  9"}, says="requests.arrival_ns"),
    ),
)  # fmt: skip
