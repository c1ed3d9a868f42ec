"""`pellucid replay` as a user meets it, against a small server of its own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pellucid.core.units import S_NS
from pellucid.surface.cli import main
from pellucid.testing.engine import free_port, stop
from pellucid.verbs.loop.timings import SCHEMA
from pellucid.workload.file import write
from pellucid.workload.rows import Request, Rows
from tests.collect.client.conftest import serve

pytestmark = pytest.mark.slow

ROOM = ("--model-config", ".", "--context-tokens", "100")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine = serve(tmp_path_factory.mktemp("stub") / "log", "0.002")
    yield engine.url
    stop(engine)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps({"vocab_size": 4096, "bos_token_id": 2, "eos_token_id": 1}))
    make("w", *(Request(40, 5, n * S_NS // 20, [0, n % 3 + 1], 16, "chat") for n in range(40)))


def make(name: str, *requests: Request) -> None:
    rows = Rows()
    for request in requests:
        rows.add(request)
    write(rows.workload(name, "literal"), Path(name))


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["replay", *words, *ROOM, "--json"]) == code
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_what_is_sent_is_the_workload(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "w", "--url", url)
    assert said["requests"] == {
        "read_count": 40, "left_out": {}, "asked_count": 40, "sent_count": 40, "unsent_count": 0, "ok_count": 40,
        "other_length_count": 0,
    }  # fmt: skip
    source, sent = said["source"], said["replayed"]
    assert (sent["prompt"], sent["output"], sent["sharing"]) == (source["prompt"], source["output"], source["sharing"])
    assert sent["arrivals"]["rate_per_s"] == pytest.approx(20, rel=0.05)
    assert said["client"]["lag_ns"]["p50"] < said["client"]["lag_limit_ns"]
    assert said["latency"]["ttft_ns"]["p50"] <= said["latency"]["e2e_ns"]["p50"]
    assert (said["conditions"]["first_token_id"], said["conditions"]["end_token_id"]) == (3, 4096)
    assert "labels of 40 requests were not sent" in " ".join(said["notes"])


def test_requests_within_the_limits_are_counted(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "w", "--url", url)["measures"]["good_count"] is None
    assert told(capsys, "w", "--url", url, "--slo", "ttft_p95<10s")["measures"]["good_count"] == 40
    assert told(capsys, "w", "--url", url, "--slo", "ttft_p95<1ms,e2e_p95<2ms")["measures"]["good_count"] == 0
    assert main(["replay", "w", "--url", url, *ROOM, "--slo", "ttft_p95<10s"]) == 0
    assert "40 of 40 requests within the limits" in " ".join(capsys.readouterr().out.split())
    assert main(["replay", "w", "--url", url, *ROOM, "--slo", "quick"]) == 2


def test_the_screen_tells_client_traffic_and_answers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "w", "--url", url, *ROOM, "--speed", "2", "--limit", "20"]) in (0, 3)
    said = capsys.readouterr().out
    for part in ("late p50", "20 sent: 20 answered, 0 failed", "workload", "as sent", "of prompt tokens repeat", "TTFT",
                 "speed 2, tokens 1, seed 0", "token ids 3 to 4,095", "no kind we know"):  # fmt: skip
        assert part in said


def test_every_requests_times_are_written(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "w", "--url", url, "--limit", "10", "--out", "t.parquet")
    table = pq.read_table("t.parquet")
    assert table.schema.equals(SCHEMA)
    rows = table.to_pylist()
    assert [(r["row"], r["due_ns"], r["output_tokens"]) for r in rows] == [(n, n * S_NS // 20, 5) for n in range(10)]
    for row in rows:
        assert row["due_ns"] <= row["sent_ns"] < row["first_ns"] == row["arrivals_ns"][0] <= row["end_ns"]
    assert main(["replay", "w", "--url", url, *ROOM, "--out", "t.parquet"]) == 2


def test_a_rate_beyond_the_client_has_no_verdict(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    make("many", *(Request(10, 5, n) for n in range(3000)))
    said = told(capsys, "many", "--url", url, code=3)
    assert said["client_bound"] is True
    assert said["client_bound_reason"]


@pytest.mark.parametrize(("model", "kind"), [("429", "busy"), ("hang", "timeout"), ("reset", "lost"), ("odd", "unreadable")])  # noqa: E501
def test_a_server_that_answers_nothing_well_has_failed(
    url: str, capsys: pytest.CaptureFixture[str], model: str, kind: str
) -> None:
    said = told(capsys, "w", "--url", url, "--model", model, "--limit", "5", "--timeout", "500ms", code=1)
    assert (list(said["errors"]), said["errors"][kind]["requests_count"]) == ([kind], 5)
    assert said["latency"] == dict.fromkeys(("ttft_ns", "tpot_ns", "itl_ns", "e2e_ns"))
    assert said["measures"]["output_tokens_per_s"] is None


def test_a_server_that_dies_is_given_up_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("long", *(Request(10, 5, n * S_NS // 50) for n in range(5000)))
    engine = serve(tmp_path / "log")
    try:
        said = told(capsys, "long", "--url", engine.url, "--model", "die", code=1)
    finally:
        stop(engine)
    assert "not taken" in said["ended_early"]
    assert said["requests"]["unsent_count"] > 4000


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(["w", "--model", "other"], 2, "Try: --model m"), (["none"], 2, "no such file"),
     (["config.json"], 2, "no workload"),
     (["w", "--speed", "0"], 2, "--speed 0"), (["w", "--rate", "2"], 2, "arrival times of its own"),
     (["w", "--context-tokens", "8"], 3, "--scale-tokens"), (["empty"], 3, "no request"),
     (["untimed"], 2, "Try: --rate"), (["open"], 2, "Try: --output-tokens"), (["w", "--seed", "-1"], 2, "--seed -1")],
)  # fmt: skip
def test_what_cannot_be_replayed_is_said_with_what_to_type(
    url: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    make("empty")
    make("untimed", Request(5, 5))
    make("open", Request(5, None, 0))
    assert main(["replay", *ROOM, *words, "--url", url]) == code
    assert says in capsys.readouterr().err


def test_what_has_to_be_given_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "w", "--url", url, "--model-config", "."]) == 2
    assert "Try: --context-tokens" in capsys.readouterr().err
    assert main(["replay", "w", "--url", url, "--context-tokens", "100"]) == 2
    assert "Try: --model-config" in capsys.readouterr().err
    Path("config.json").write_text("{}")
    assert main(["replay", "w", "--url", url, *ROOM]) == 2
    assert "no vocab_size" in capsys.readouterr().err


def test_a_header_that_http_cannot_carry_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("süß", "a\r\nX: b"):
        assert main(["replay", "w", "--url", url, *ROOM, "--header", f"X-A: {value}"]) == 2
    assert "'X-A' has characters" in capsys.readouterr().err


def test_nobody_there_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "w", "--url", f"http://127.0.0.1:{free_port()}", *ROOM]) == 1
    assert "refused" in capsys.readouterr().err


def test_what_is_no_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "w", "--url", "ftp://x", *ROOM]) == 2
    assert "no" in capsys.readouterr().err
