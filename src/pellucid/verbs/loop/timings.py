"""Replies of a replay → one Parquet file, a row for each request that was sent. No prompt, no text.

    row  due_ns       sent_ns      first_ns     end_ns       prompt_tokens  output_tokens  fault  arrivals_ns
    0    0            410312       81500000     912300000    675            50                    [81500000, …]

Moments count from the start of the replay, by CLOCK_MONOTONIC. `row` is that of the workload file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.core.whole import replacing
from pellucid.store.column import STR, Column, columns
from pellucid.verbs.loop.replay import Replayed

COLUMNS: tuple[Column, ...] = (
    *columns("""
        row: of the workload file
        due_ns: when it was to be sent
        sent_ns: when it was
        first_ns: the first read with output; null without
        end_ns: its connection was closed
        prompt_tokens: as the server counted; null where it did not
        asked_tokens: answer's length asked for
        output_tokens: answer's length as the server counted; null where it did not
        status: of HTTP; null without an answer
        """),
    *columns("""
        request_id: sent as X-Request-Id
        task: traffic class
        finish_reason: as the server said
        fault: kind of what went wrong; empty for nothing
        error: its words
        """, STR),
    Column("arrivals_ns", pa.list_(pa.int64()), "each read with output"),
)  # fmt: skip
SCHEMA = pa.schema([pa.field(c.name, c.type) for c in COLUMNS])


def write(replayed: Replayed, path: Path) -> int:
    """Bytes on the disk. Raises Failed where it refuses."""
    table = pa.Table.from_pylist(_rows(replayed), SCHEMA)
    with replacing(path) as part:
        pq.write_table(table, part, compression="zstd")
    return path.stat().st_size


def _rows(replayed: Replayed) -> list[dict[str, Any]]:
    began_ns, plan = replayed.played.began_ns, replayed.plan
    places = {id(ask): row for ask, row in zip(plan.asks, plan.rows, strict=True)}
    return [
        {
            "row": places[id(r.ask)], "due_ns": r.sent_ns - r.lag_ns - began_ns, "sent_ns": r.sent_ns - began_ns,
            "first_ns": None if r.first_token_ns is None else r.first_token_ns - began_ns,
            "end_ns": r.end_ns - began_ns,
            "prompt_tokens": r.prompt_tokens, "asked_tokens": r.ask.output_tokens, "output_tokens": r.output_tokens,
            "status": r.status, "request_id": r.ask.request_id, "task": r.ask.task, "finish_reason": r.finish_reason,
            "fault": r.fault, "error": r.error, "arrivals_ns": [a.time_ns - began_ns for a in r.arrivals],
        }
        for r in replayed.played.replies
    ]  # fmt: skip
