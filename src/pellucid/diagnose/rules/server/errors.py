"""Requests are turned away or fail: HTTP 429 and 5xx, and refusals at admission.

Looks like
    Among the answers there are 429, 503 or other 5xx, or the engine counts requests it would not take in.

Why it costs
    A request that was turned away got nothing, and a client that tries again sends the same work twice.

Not this when
    The statuses are 4xx: then the requests were wrong. Engines that group statuses themselves count 429 among these.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

import math

from pellucid.core.units import percent
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

FAILED = Limit(0.01, "ratio", "chosen: one in a hundred; what is promised to users is mostly 99 % or more")
NO_ROOM = Limit(0.5, "ratio", "chosen: where most failures are refusals there was no room, and more engines help; else something is broken")


def judge(row: Row) -> Verdict:
    answers, rejected = row["responses_count"], row["rejected_count"]
    if answers is None and rejected is None and row["failed_count"] is None:
        return blind("the page counts neither HTTP answers nor refusals",
                     "count answers at the gateway; the probe sees which requests were aborted")  # fmt: skip
    no_room = row["no_room_count"] or 0
    refused = max(no_room, rejected or 0)
    broken = max(row["server_errors_count"] or 0, row["failed_count"] or 0, rejected or 0)
    bad = broken + no_room
    whole = max(answers or 0, bad + (row["finished_count"] or 0))
    if not whole:
        return not_applicable("nobody asked anything")
    if bad < FAILED.value * whole:
        return clear(f"{bad:.0f} of {whole:.0f} requests were refused or failed")
    turned_away = refused >= NO_ROOM.value * bad
    what = "turned away for lack of room" if turned_away else "failed in the server: its log says why"
    good, replicas = whole - bad, row.number("replicas_count")
    return found(
        f"{percent(bad / whole)} of {whole:.0f} requests got 429 or 5xx or were refused, mostly {what}",
        Gain("output_tokens_per_s", 0.0, bad / max(good, 1), "end_to_end"),
        {"engine_replicas": float(math.ceil(replicas * whole / max(good, whole / 4)))} if turned_away else {},
    )


HEAD = """process  metric  kind  part  value
          """


def _counts(two: int, busy: int, five: int, *more: str) -> dict[str, str]:
    lines = [f"a  http_responses_count  counter  {part}  {n}" for part, n in (("2xx", two), ("429", busy), ("5xx", five))]
    return {"metrics": HEAD + "\n".join([*lines, "a  running_count  gauge  -  3", *more])}


RULE = Rule(
    id="server.errors",
    question="Are requests turned away, or do they fail?",
    needs=(Need("metrics", ("process", "metric", "kind", "value"), "read the engine's metrics page: pellucid attach URL", ("part",)),),
    evidence="""
        SELECT sum(value) FILTER (metric = 'http_responses_count')                    AS responses_count,
               sum(value) FILTER (metric = 'http_responses_count' AND part = '429')   AS no_room_count,
               sum(value) FILTER (metric = 'http_responses_count' AND part = '5xx')   AS server_errors_count,
               sum(value) FILTER (metric = 'rejected_count')                          AS rejected_count,
               sum(value) FILTER (metric = 'failed_count')                            AS failed_count,
               sum(value) FILTER (metric = 'finished_count')                          AS finished_count,
               count(DISTINCT process)                                                AS replicas_count
        FROM metrics
    """,
    judge=judge,
    limits=(FAILED, NO_ROOM),
    moves=(Move("engine_replicas", "raise", "another copy of the weights and another device for each"),),
    falsified_by="requests are turned away as often after the move",
    explained_by=("queue.waiting_with_kv_free", "kv.cache_full"),
    cases=(
        Case("one in five is told to come back later", "found", _counts(80, 15, 5), says="20% of 100 requests got 429 or 5xx or were refused, mostly turned away"),
        Case("refused at admission, which is 503", "found", _counts(90, 0, 10, "a  rejected_count  counter  max_num_queued_reqs  10"), says="10% of 100"),
        Case("only refusals are counted", "found", {"metrics": HEAD + "a  rejected_count  counter  x  6\na  finished_count  counter  stop  54"}, says="10% of 60"),
        Case("one in a thousand", "clear", _counts(999, 0, 1, "a  failed_count  counter  -  1"), says="1 of 1000"),
        Case("wrong requests", "clear", _counts(50, 0, 0, "a  http_responses_count  counter  4xx  50"), says="0 of 100"),
        Case("nobody asked", "not_applicable", _counts(0, 0, 0)),
        Case("no answers on the page", "blind", {"metrics": HEAD + "a  running_count  gauge  -  3"}, says="neither"),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip
