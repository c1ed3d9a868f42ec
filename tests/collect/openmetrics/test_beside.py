"""The metrics page read beside the rings, from a real HTTP server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.loop import record
from pellucid.collect.openmetrics import address
from pellucid.collect.openmetrics.beside import Beside
from pellucid.core.clock import monotonic_ns
from pellucid.core.units import MS_NS
from pellucid.store.read import open_run
from pellucid.store.schema import METRICS
from tests.collect.openmetrics.endpoint import ok, serving

PAGE = """# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} %d
"""


def finished(rows: list[tuple[Any, ...]]) -> list[float]:
    names = METRICS.names()
    told = [dict(zip(names, row, strict=True)) for row in rows]
    return [row["value"] for row in told if row["metric"] == "finished_count" and row["kind"] == "counter"]


def pages_of(url: str, wanted: int, rows: list[tuple[Any, ...]], served: Any) -> None:
    beside = Beside(address.endpoint(url), 10 * MS_NS, lambda _, row: rows.append(row), monotonic_ns, {})
    end = time.monotonic() + 10
    while served.pages_count < wanted and time.monotonic() < end:
        beside.cycle()
        time.sleep(0.01)
    beside.close()


def test_pages_become_increases_and_the_last_one_is_not_lost() -> None:
    rows: list[tuple[Any, ...]] = []
    with serving(ok(PAGE % 3), ok(PAGE % 3), ok(PAGE % 8)) as served:
        pages_of(served.name, 4, rows, served)
    assert sum(finished(rows)) == 5


def test_an_engine_that_does_not_serve_yet_leaves_no_row_and_one_that_fails_later_does() -> None:
    rows: list[tuple[Any, ...]] = []
    down = (503, "text/plain", "")
    with serving(down, down, ok(PAGE % 3), down) as served:
        pages_of(served.name, 6, rows, served)
    metric = METRICS.names().index("metric")
    assert [row[metric] for row in rows].count("scrape_failed_count") == served.pages_count - 3


@pytest.mark.slow
def test_the_recorder_writes_them_into_its_run(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    with serving(ok(PAGE % 3), ok(PAGE % 8)) as served:
        page = address.endpoint(served.name)
        record(tmp_path / "rings", tmp_path / "run", lambda: served.pages_count >= 2, page=page)
    grown = open_run(tmp_path / "run").one("SELECT sum(value) AS n FROM metrics WHERE metric = 'finished_count'")
    assert grown["n"] == 5
