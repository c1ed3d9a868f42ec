"""Replicas that a real Prometheus server scrapes: all are read, and the odd one is named.

Small servers show the pages of a recorded H200 run, with counters that move from the first page to the second. Of two
that serve one model one takes four times as long to the first token; a third serves another model, slower still.
Prometheus is Debian's package.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from pellucid.collect.openmetrics.parse import Sample, parse
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.units import S_NS
from pellucid.store.read import open_run
from pellucid.verbs.intake.attach import Attached, recall
from pellucid.verbs.record import RecordInto
from pellucid.verbs.why import why
from tests.collect.openmetrics.endpoint import serving
from tests.collect.openmetrics.pages import text
from tests.conftest import shared_data

UNPACKED = Path(__file__).parents[3] / ".prometheus/usr/bin/prometheus"    # of `make test`
MOVES_S = 14.0             # in which the counters go from the first page to the second
SLOW = 4.0
JSON = "application/json"


class Replica:
    """A page whose counters move with time."""

    def __init__(self, slow: float, model: str = "m-8b") -> None:
        pages = [parse(text(shared_data(f"h200_vllm024/metrics_rate{rate}.txt.gz"))).samples for rate in (4, 12)]
        self.before, self.after = ({_series(s, model): s.value for s in page} for page in pages)
        self.slow, self.began_s = slow, time.monotonic()
        page = self.page

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def page(self) -> str:
        done = min(1.0, (time.monotonic() - self.began_s) / MOVES_S)
        lines = []
        for series, first in self.before.items():
            grown = (self.after.get(series, first) - first) * done
            slow = self.slow if series.startswith("vllm:time_to_first_token_seconds_sum") else 1.0
            lines.append(f"{series} {first + grown * slow}\n")
        return "".join(lines)

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def _series(sample: Sample, model: str) -> str:
    labels = ",".join(f'{k}="{model if k == "model_name" else v}"' for k, v in sample.labels.items())
    return f"{sample.name}{{{labels}}}"


def program() -> str:
    found = shutil.which("prometheus") or (str(UNPACKED) if UNPACKED.exists() else None)
    if found is None:
        reason = "no prometheus on this machine. Try: apt-get install prometheus, or make .prometheus/made"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Replica]]]:
    """The server's URL and the replicas, of which it has scraped every move."""
    binary, folder = program(), tmp_path_factory.mktemp("prometheus")
    replicas = [Replica(1.0), Replica(SLOW), Replica(2 * SLOW, "m-405b")]
    targets = ", ".join(f"'{r.name}'" for r in replicas)
    (folder / "config.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs:\n- job_name: engines\n  static_configs: [{{targets: [{targets}]}}]\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{free.getsockname()[1]}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [binary, f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={at}"], stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _ready(f"http://{at}", process, folder / "log")
            _until_still(f"http://{at}", replicas)
            yield f"http://{at}", replicas
        finally:
            process.terminate()
            process.wait(20)
            for replica in replicas:
                replica.end()


def _ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        try:
            if httpx.get(f"{url}/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(0.1)
    pytest.fail(f"prometheus did not start: {log.read_text()[-2000:]}")


def _until_still(url: str, replicas: list[Replica]) -> None:
    """Returns when the server has the last values of all. A scrape may come late on a busy machine."""
    end_s = time.monotonic() + MOVES_S + 60
    while time.monotonic() < end_s:
        asked = {"query": 'vllm:request_success_total{finished_reason="length"}'}
        result = httpx.get(f"{url}/api/v1/query", params=asked).json()["data"]["result"]
        if [float(s["value"][1]) for s in result] == [192.0] * len(replicas):
            return
        time.sleep(0.2)
    pytest.fail("prometheus did not scrape the last values")


def recalled(url: str, home: Path, seconds: int = 30) -> Attached:
    return recall(url, RecordInto(home), seconds * S_NS, {})


@pytest.mark.slow
def test_every_replica_is_read_and_the_slow_one_is_named(fleet: tuple[str, list[Replica]], tmp_path: Path) -> None:
    url, replicas = fleet
    done = recalled(url, tmp_path)
    assert set(done.processes) == {r.name for r in replicas}
    answer = why(done.folder)
    (odd,) = [f for f in answer["findings"] if f["id"] == "fleet.replica_odd"]
    assert odd["evidence"]["odd_replica"] == replicas[1].name
    assert odd["says"].startswith(replicas[1].name)
    assert (odd["evidence"]["model"], odd["evidence"]["replicas_count"]) == ("m-8b", 2)
    assert odd["evidence"]["ttft_times_ratio"] == pytest.approx(SLOW, rel=0.05)
    assert answer["engine"]["name"] == "vllm"


@pytest.mark.slow
def test_increases_of_all_replicas_are_those_of_their_pages(fleet: tuple[str, list[Replica]], tmp_path: Path) -> None:
    """By now the counters stand still, so the increase is the last value that the server has, less the first."""
    url, replicas = fleet
    run = open_run(recalled(url, tmp_path, 60).folder)
    rows = run.rows("SELECT process, sum(value) AS n FROM metrics WHERE metric = 'finished_count' GROUP BY 1")
    asked = {"query": 'vllm:request_success_total{finished_reason="length"}[60s]'}
    stored = httpx.get(f"{url}/api/v1/query", params=asked).json()["data"]["result"]
    values = {s["metric"]["instance"]: [float(v) for _, v in s["values"]] for s in stored}
    assert values.keys() == {r.name for r in replicas}
    second = 144 / MOVES_S     # the first point of the grid may come up to a scrape after the first value
    grown = {k: v[-1] - v[0] for k, v in values.items()}
    assert {r["process"]: r["n"] for r in rows} == pytest.approx(grown, abs=second)
    assert {v[-1] for v in values.values()} == {192}
    kinds = {r["kind"] for r in run.rows("SELECT DISTINCT kind FROM metrics")}
    assert kinds == {"gauge", "counter", "count", "sum"}


@pytest.mark.slow
def test_a_matcher_chooses_replicas(fleet: tuple[str, list[Replica]], tmp_path: Path) -> None:
    url, replicas = fleet
    done = recall(url, RecordInto(tmp_path), 30 * S_NS, {}, f'instance="{replicas[0].name}"')
    assert done.processes == (replicas[0].name,)


@pytest.mark.slow
def test_a_matcher_that_is_none_is_told_in_the_servers_words(fleet: tuple[str, list[Replica]], tmp_path: Path) -> None:
    with pytest.raises(Failed, match="parse error"):
        recall(fleet[0], RecordInto(tmp_path), 30 * S_NS, {}, "instance=")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [((401, "text/plain", ""), Failed, "answers 401 .*PELLUCID_AUTHORIZATION"),
     ((200, "text/html", "<html>"), Failed, "answers 200 to /api/v1/label"),
     ((200, JSON, '{"status": "success", "data": ["up", "go_info"]}'), CannotAnswer, "2 metrics and none of an engine"),
     ((503, JSON, '{"status": "error", "error": "query timed out"}'), Failed, "query timed out")],
)  # fmt: skip
def test_a_server_without_an_answer_is_told_in_words(
    tmp_path: Path, reply: tuple[int, str, str], error: type[Exception], says: str
) -> None:
    with serving(reply) as end, pytest.raises(error, match=re.compile(says, re.DOTALL)):
        recalled(end.name, tmp_path)


def test_the_token_goes_along(tmp_path: Path) -> None:
    with serving((401, "text/plain", "")) as end:
        with pytest.raises(Failed):
            recall(end.name, RecordInto(tmp_path), S_NS, {"Authorization": "Bearer t"})
        assert end.asked[0][1]["Authorization"] == "Bearer t"


def test_what_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly):
        recalled("ftp://x", tmp_path)
