"""Rows of a query as they come, some thousand at a time: a day's rows do not fit in memory.

    for row in pages(run, "SELECT * FROM steps", {}): …

The database runs one query at a time: no other may be asked before the last row was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pellucid.store.read import RunReader

PAGE_ROWS = 5_000


def pages(run: RunReader, sql: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    run.make_views(sql)
    cursor = run.db.execute(sql, dict(params))
    names = [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(PAGE_ROWS):
        for row in rows:
            yield dict(zip(names, row, strict=True))
