"""Pages over HTTP into a run: rows, intervals, failures of the scrape itself, refusals in words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pellucid.collect.openmetrics.address import endpoint
from pellucid.collect.openmetrics.scrape import Scraping, record
from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.units import MS_NS
from pellucid.store.read import RunReader, open_run
from tests.collect.openmetrics.endpoint import TEXT, Endpoint, ok, serving

OUT = """vllm:generation_tokens_total{{engine="0",model_name="/models/m"}} {}
vllm:num_requests_running{{engine="0"}} {}
"""
STRANGE = 'acme_depth{user="ada",pool="x"} 4\n'
HOW = Scraping(20 * MS_NS, {"Authorization": "Bearer t"}, {"step.times": "times of a step"}, "install the probe")


def recorded(end: Endpoint, folder: Path, replies: int) -> RunReader:
    record(endpoint(end.name), folder, HOW, lambda: end.pages_count > replies)
    return open_run(folder)


def test_a_run_has_gauges_at_once_and_increases_from_the_second_page_on(tmp_path: Path) -> None:
    with serving(ok(OUT.format(100, 2)), ok(OUT.format(100, 2)), ok(OUT.format(130, 3))) as end:
        run = recorded(end, tmp_path, 2)
    ours = "metric IN ('output_tokens', 'running_count')"
    rows = run.rows(f"SELECT * FROM metrics WHERE {ours} ORDER BY end_ns, metric")
    assert [(r["metric"], r["value"]) for r in rows[:3]] == [
        ("running_count", 2), ("output_tokens", 30), ("running_count", 3)]  # fmt: skip
    first, second = rows[0], rows[1]
    assert first["start_ns"] == first["end_ns"] == second["start_ns"] < second["end_ns"]
    assert (second["engine"], second["model"], second["dp_rank"], second["process"]) == ("vllm", "m", 0, end.name)


def test_the_engine_is_described_and_its_version_asked_for(tmp_path: Path) -> None:
    with serving(ok(OUT.format(1, 2)), version="0.32.0") as end:
        (source,) = recorded(end, tmp_path, 1).rows("SELECT engine, engine_version, model, role FROM sources")
        assert [path for path, _ in end.asked].count("/version") == 1
        assert {h.get("Authorization") for _, h in end.asked} == {"Bearer t"}
    assert source == {"engine": "vllm", "engine_version": "0.32.0", "model": "m", "role": "endpoint"}


def test_what_has_no_place_is_kept_without_names(tmp_path: Path) -> None:
    with serving(ok(STRANGE + OUT.format(1, 2))) as end:
        row = recorded(end, tmp_path, 1).rows("SELECT name, labels_json, value FROM samples LIMIT 1")[0]
    assert row == {"name": "acme_depth", "labels_json": '{"pool": "x"}', "value": 4}


def test_a_page_that_does_not_come_is_counted_by_its_reason(tmp_path: Path) -> None:
    page = ok(OUT.format(100, 2))
    with serving(page, page, (429, TEXT, ""), (500, TEXT, ""), ok(OUT.format(150, 2))) as end:
        run = recorded(end, tmp_path, 4)
    failed = run.rows("SELECT part, value FROM metrics WHERE metric = 'scrape_failed_count' ORDER BY end_ns")
    assert [(r["part"], r["value"]) for r in failed] == [("429", 1), ("5xx", 1)]
    (grown,) = run.rows("SELECT sum(value) AS n FROM metrics WHERE metric = 'output_tokens'")
    assert grown["n"] == 50


def test_what_only_the_probe_sees_is_blind(tmp_path: Path) -> None:
    with serving(ok(OUT.format(1, 2))) as end:
        (fact,) = recorded(end, tmp_path, 1).rows("SELECT fact, state, reason, collect FROM facts")
    assert fact == {"fact": "step.times", "state": "blind", "collect": "install the probe",
                    "reason": "no metrics page has it: times of a step"}  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "says"),
    [((404, TEXT, ""), "HTTP 404: there is no metrics page"), ((401, TEXT, ""), "PELLUCID_AUTHORIZATION"),
     ((200, "application/json", "[]"), "the page is JSON"), ((200, TEXT, "hello, world\n"), "not with metrics")],
)  # fmt: skip
def test_a_first_page_that_is_none_is_refused_in_words(tmp_path: Path, reply: tuple[int, str, str], says: str) -> None:
    with serving(reply) as end, pytest.raises(Failed, match=says):
        recorded(end, tmp_path, 1)


def test_nobody_there_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Failed, match=r"no metrics from http://127\.0\.0\.1"):
        record(endpoint(f"127.0.0.1:{port}"), tmp_path, HOW, lambda: True)


@pytest.mark.parametrize(
    ("typed", "url", "name"),
    [("localhost:8000", "http://localhost:8000/metrics", "localhost:8000"),
     ("http://h/v1", "http://h/metrics", "h"), ("https://ada:pw@h:1/x", "https://h:1/x", "h:1"),
     ("[::1]:80", "http://[::1]:80/metrics", "[::1]:80")],
)  # fmt: skip
def test_an_address_is_completed_and_rid_of_passwords(typed: str, url: str, name: str) -> None:
    at = endpoint(typed)
    assert (at.url, at.name) == (url, name)
    assert "pw" not in repr(at)


@pytest.mark.parametrize("typed", ["", "ftp://h", "http://", "h:port"])
def test_what_is_no_address_is_refused(typed: str) -> None:
    with pytest.raises(AskedWrongly):
        endpoint(typed)
