"""What was recorded around one request: its row, its steps, its tokens in them, and whose prompts were in them too.

    seen = look(run, "cmpl-7")
    seen.row["queued_ns"], seen.steps[0]["start_ns"], seen.shares[0]["tokens"]

Facts only; `spans` and `gaps` say what they mean. A request that was preempted has steps without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import counted
from pellucid.store.read import RunReader

Rows = list[dict[str, Any]]

STEPS = """
    SELECT step, start_ns, end_ns, schedule_ns, update_ns, host_gap_ns, scheduled_tokens, waiting_sequence_cap_count,
           waiting_token_budget_count, waiting_kv_count, waiting_deferred_count, sequence_cap_count, token_budget_tokens
    FROM steps WHERE process = $p AND end_ns > $a AND start_ns < $b ORDER BY start_ns
"""
SHARES = """
    SELECT step, tokens, output_tokens, phase FROM step_requests
    WHERE process = $p AND request = $r ORDER BY step
"""
# Prompts of others: runs are cut to the steps asked for before they are unfolded.
OTHERS = """
    WITH cut AS (SELECT request, step_tokens,
                        greatest(first_step, $a) AS first_step, least(last_step, $b) AS last_step
                 FROM step_runs
                 WHERE process = $p AND request <> $r AND phase <> 'decode'
                   AND first_step <= $b AND last_step >= $a),
         names AS (SELECT request, any_value(request_id) AS request_id FROM requests
                   WHERE process = $p GROUP BY request)
    SELECT unnest(generate_series(first_step, last_step)) AS step, step_tokens AS tokens,
           coalesce(request_id, 'request ' || cut.request) AS request_id
    FROM cut LEFT JOIN names USING (request)
"""


@dataclass(frozen=True, slots=True)
class Seen:
    row: dict[str, Any]          # its row of `requests`
    twins: Rows                  # other requests with the same external id
    steps: Rows                  # from its queueing to its end, in order
    shares: Rows                 # its part of each step it was in
    others: Rows                 # prompt tokens of other requests, by step
    events: Rows                 # preempted, rescheduled … with step and tokens


def look(run: RunReader, request_id: str) -> Seen:
    """The newest request with that external or internal id. Raises AskedWrongly when there is none."""
    found = run.rows(
        "SELECT * FROM requests WHERE request_id = $id OR internal_id = $id "
        "ORDER BY coalesce(arrival_ns, queued_ns, finish_ns) DESC NULLS LAST",
        {"id": request_id},
    )
    if not found:
        seen = run.one("SELECT nullif(count(*), 0) AS n, max(request_id) AS example FROM requests")
        hint = f", for example {seen['example']}" if seen["example"] else ""
        raise AskedWrongly(
            f"no request {request_id!r} in {run.folder.name}: {'it has ' if hint else ''}"
            f"{counted(seen['n'], 'requests')}{hint}. Try: pellucid requests"
        )
    row = found[0]
    asked = {"p": row["process"], "r": row["request"]}
    shares = run.rows(SHARES, asked)
    steps = run.rows(STEPS, {"p": row["process"], **_time(row)})
    events = run.rows(
        "SELECT event, step, time_ns, tokens FROM request_events WHERE process = $p AND request = $r ORDER BY time_ns",
        asked,
    )
    others: Rows = []
    if shares:
        others = run.rows(OTHERS, {**asked, "a": shares[0]["step"], "b": shares[-1]["step"]})
    return Seen(row, found[1:], steps, shares, others, events)


def _time(row: dict[str, Any]) -> dict[str, int]:
    """From its first to its last known moment; an empty span when neither is known."""
    moments = [row[c] for c in ("queued_ns", "scheduled_ns", "first_token_ns", "last_token_ns", "finish_ns")]
    known = [m for m in moments if m is not None]
    return {"a": min(known, default=0), "b": max(known, default=0)}
