from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.core.units import MS_NS, S_NS
from pellucid.testing.engine import EngineDied, Launch, free_port, members, start, stop, wait_ready
from pellucid.testing.traffic import Ask, body, parse_stream, send

pytestmark = pytest.mark.slow

STUB = Path(__file__).parent / "stub_server.py"
TOKEN_NS = 10 * MS_NS      # stub_server.TOKEN_S


def launch(tmp: Path, *command: str, port: int = 0) -> Launch:
    return Launch((sys.executable, *command), f"http://127.0.0.1:{port}", tmp / "log")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    server = start(launch(tmp_path_factory.mktemp("stub"), str(STUB), str(port), port=port))
    wait_ready(server, 30)
    yield server.url
    stop(server)


def test_a_streamed_reply_has_a_time_and_a_count_for_every_token(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "hello", 5, request_id="a")])
    assert (reply.ok, reply.prompt_tokens, reply.output_tokens, reply.finish_reason) == (True, 5, 5, "length")
    assert reply.response_id == "cmpl-a"
    assert [a.output_tokens for a in reply.arrivals] == [1, 2, 3, 4, 5]
    gaps = [b.time_ns - a.time_ns for a, b in zip(reply.arrivals, reply.arrivals[1:], strict=False)]
    assert sum(gaps) >= 4 * TOKEN_NS * 0.9      # the server sleeps at least so long between them
    assert reply.sent_ns < reply.arrivals[0].time_ns <= reply.arrivals[-1].time_ns <= reply.end_ns


def test_a_whole_reply_has_its_counts_and_one_time(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "hello", 5, stream=False)])
    assert (reply.output_tokens, reply.finish_reason, len(reply.arrivals)) == (5, "length", 1)


def test_a_refused_request_keeps_status_and_words(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "fail", 5)])
    assert (reply.ok, reply.status, reply.error, reply.output_tokens) == (False, 400, "no such thing", None)


def test_a_reply_cut_short_keeps_what_came(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "cut", 5)])
    assert (reply.output_tokens, reply.finish_reason) == (2, None)


def test_hanging_up_after_tokens_stops_there(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "hello", 200, hang_up_tokens=3)])
    assert reply.hung_up
    assert reply.output_tokens is not None
    assert 3 <= reply.output_tokens < 200


def test_hanging_up_after_a_time_stops_then(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "hello", 1000, hang_up_s=0.1)])
    assert (reply.hung_up, reply.error) == (True, "")
    assert 0.1 * S_NS <= reply.end_ns - reply.sent_ns < 5 * S_NS


def test_a_server_that_is_not_there_is_an_error_of_the_reply() -> None:
    (reply,) = send(f"http://127.0.0.1:{free_port()}", "m", [Ask(0, "hello", 5)])
    assert (reply.ok, reply.status) == (False, None)
    assert reply.error.startswith("ConnectError")


def test_asks_go_out_at_their_time_whatever_the_server_does(url: str) -> None:
    replies = send(url, "m", [Ask(at, "hello", 30) for at in (0.0, 0.1, 0.2)])
    due = [r.sent_ns - r.lag_ns for r in replies]
    assert [d - due[0] for d in due] == [0, S_NS // 10, S_NS // 5]
    assert all(r.lag_ns >= 0 for r in replies)
    assert replies[2].sent_ns < replies[0].end_ns, "it waited for an earlier one"


def test_an_ask_that_follows_another_waits_for_its_end(url: str) -> None:
    first, second = send(url, "m", [Ask(0, "hello", 10), Ask(0.05, "hello", 2, after=0)])
    assert second.sent_ns - first.end_ns >= 0.045 * S_NS


def test_what_is_due_too_late_is_not_sent(url: str) -> None:
    asks = [Ask(0, "hello", 10), Ask(0, "hello", 10, after=0), Ask(0, "hello", 10, after=1), Ask(9, "hello", 1)]
    replies = send(url, "m", asks, until_s=0.15)
    assert [r.ask for r in replies] == asks[:2]


def test_a_label_and_further_fields_are_in_the_body() -> None:
    sent = body("m", Ask(0, [1, 2], 3, task="plan", extra={"temperature": 0}))
    assert (sent["prompt"], sent["vllm_xargs"], sent["temperature"]) == ([1, 2], {"task": "plan"}, 0)


def test_an_event_in_two_pieces_has_the_time_of_the_second() -> None:
    assert parse_stream([(1, b'data: {"a"'), (2, b': 1}\n\ndata: {"b": 2}\n\nda'), (3, b"ta: [DONE]\n\n")]) == [
        (2, {"a": 1}), (2, {"b": 2}),
    ]  # fmt: skip


def test_an_engine_that_dies_at_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    engine = start(launch(tmp_path, "-c", "import sys; print('no memory'); sys.exit(3)"))
    with pytest.raises(EngineDied, match=r"(?s)code 3.*no memory"):
        wait_ready(engine, 30)
    assert stop(engine) == []


def test_an_engine_that_never_serves_is_given_up(tmp_path: Path) -> None:
    engine = start(launch(tmp_path, "-c", "import time; time.sleep(60)", port=free_port()))
    with pytest.raises(EngineDied, match="does not serve after"):
        wait_ready(engine, 0.5)
    assert stop(engine, grace_s=5) == []      # Python ends on SIGINT by itself


def test_processes_left_behind_are_killed_and_named(tmp_path: Path) -> None:
    ignores = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    stubborn = f"import signal, time; {ignores}; print('on', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {stubborn!r}]); time.sleep(60)"
    engine = start(launch(tmp_path, "-c", parent))
    while "on" not in engine.launch.log.read_text():
        assert engine.process.poll() is None
    assert len(members(engine)) == 2
    killed = stop(engine, grace_s=0.5)
    assert ["signal.SIG_IGN" in m.command for m in killed] == [True]
    assert members(engine) == []
