from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from pellucid.catalog.servers.dialects import PLAIN, Dialect
from pellucid.collect.client.ask import Ask, Reply
from pellucid.collect.client.body import body
from pellucid.collect.client.events import Stream
from pellucid.collect.client.play import GONE_COUNT, Bounds, Target, play
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import MS_NS, S_NS
from pellucid.testing.engine import free_port, stop
from tests.collect.client.conftest import serve

pytestmark = pytest.mark.slow

TOKEN_NS = 10 * MS_NS      # stub_server's


def send(url: str, asks: Sequence[Ask], model: str = "m", request_s: float = math.inf) -> list[Reply]:
    return list(play(Target(url, model), asks, Bounds(request_s)).replies)


def test_a_streamed_reply_has_a_time_and_a_count_for_every_token(url: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 5, request_id="a")])
    assert (reply.ok, reply.prompt_tokens, reply.output_tokens, reply.finish_reason) == (True, 5, 5, "length")
    assert reply.response_id == "cmpl-a"
    assert [a.output_tokens for a in reply.arrivals] == [1, 2, 3, 4, 5]
    gaps = [b.time_ns - a.time_ns for a, b in zip(reply.arrivals, reply.arrivals[1:], strict=False)]
    assert sum(gaps) >= 4 * TOKEN_NS * 0.9      # the server sleeps at least so long between them
    assert reply.sent_ns < reply.arrivals[0].time_ns <= reply.arrivals[-1].time_ns <= reply.end_ns


def test_a_server_that_counts_at_the_end_only_still_has_a_time_for_every_token(url: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 5)], "plain")
    assert (reply.ok, reply.output_tokens) == (True, 5)
    assert [a.output_tokens for a in reply.arrivals] == [None] * 5


def test_a_whole_reply_has_its_counts_and_one_time(url: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 5, stream=False)])
    assert (reply.ok, reply.output_tokens, reply.finish_reason, len(reply.arrivals)) == (True, 5, "length", 1)


@pytest.mark.parametrize(
    ("model", "fault", "status", "says"),
    [("400", "refusal", 400, "no such thing"), ("429", "busy", 429, "no such thing"),
     ("503", "busy", 503, "no such thing"), ("cut", "cut", 200, "before its end"), ("reset", "lost", 200, "reset"),
     ("odd", "unreadable", 200, "truncated"), ("error", "server", 200, "out of memory"),
     ("hang", "timeout", None, "no end within 0.5 s"), ("stall", "timeout", 200, "no end within 0.5 s")],
)  # fmt: skip
def test_what_went_wrong_is_told_apart(url: str, model: str, fault: str, status: int | None, says: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 5)], model, request_s=0.5)
    assert (reply.ok, reply.fault, reply.status) == (False, fault, status)
    assert says in reply.error


@pytest.mark.parametrize("model", ["cut", "reset", "stall"])
def test_a_reply_cut_short_keeps_what_came(url: str, model: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 5)], model, request_s=0.5)
    assert (reply.output_tokens, reply.finish_reason) == (2, None)


def test_hanging_up_after_tokens_stops_there(url: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 200, hang_up_tokens=3)])
    assert (reply.hung_up, reply.fault) == (True, "")
    assert reply.output_tokens is not None
    assert 3 <= reply.output_tokens < 200


def test_hanging_up_after_a_time_stops_then(url: str) -> None:
    (reply,) = send(url, [Ask(0, "hello", 1000, hang_up_s=0.1)])
    assert (reply.hung_up, reply.error) == (True, "")
    assert 0.1 * S_NS <= reply.end_ns - reply.sent_ns < 5 * S_NS


def test_a_server_that_is_not_there_is_a_fault_of_each_reply() -> None:
    replies = send(f"http://127.0.0.1:{free_port()}", [Ask(0, "hello", 5)] * 3)
    assert [(r.fault, r.status) for r in replies] == [("refused", None)] * 3


def test_a_name_that_nobody_has_is_an_error() -> None:
    with pytest.raises(CannotAnswer, match=r"nobody\.invalid"):
        send("http://nobody.invalid:80", [Ask(0, "hello", 5)])


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(AskedWrongly):
        send("ftp://somebody", [Ask(0, "hello", 5)])


def test_asks_go_out_at_their_time_whatever_the_server_does(url: str) -> None:
    replies = send(url, [Ask(at, "hello", 30) for at in (0.0, 0.1, 0.2)])
    due = [r.sent_ns - r.lag_ns for r in replies]
    assert [d - due[0] for d in due] == [0, S_NS // 10, S_NS // 5]
    assert all(r.lag_ns >= 0 for r in replies)
    assert replies[2].sent_ns < replies[0].end_ns, "it waited for an earlier one"


def test_an_ask_that_follows_another_waits_for_its_end(url: str) -> None:
    first, second = send(url, [Ask(0, "hello", 10), Ask(0.05, "hello", 2, after=0)])
    assert second.sent_ns - second.lag_ns == first.end_ns + S_NS // 20


def test_a_later_turn_without_a_think_time_comes_at_its_time_or_after_the_answer(url: str) -> None:
    asks = [Ask(0, "hello", 10), Ask(0, "hello", 1, after=0, earliest_s=0.4), Ask(0, "hello", 1, after=0, earliest_s=0)]
    first, later, at_once = send(url, asks)
    due = [r.sent_ns - r.lag_ns for r in (first, later, at_once)]
    assert (due[1] - due[0], due[2]) == (S_NS * 2 // 5, first.end_ns)


def test_a_turn_follows_one_that_failed(url: str) -> None:
    replies = send(url, [Ask(0, "hello", 5), Ask(0, "hello", 5, after=0)], "503")
    assert [r.fault for r in replies] == ["busy", "busy"]


def test_what_is_due_too_late_is_not_sent(url: str) -> None:
    asks = [Ask(0, "hello", 10), Ask(0, "hello", 10, after=0), Ask(0, "hello", 10, after=1), Ask(9, "hello", 1)]
    played = play(Target(url, "m"), asks, Bounds(until_s=0.15))
    assert ([r.ask for r in played.replies], played.unsent_count, played.ended_early) == (asks[:2], 2, "")


def test_a_block_ends_in_time_though_the_server_hangs(url: str) -> None:
    began = time.monotonic()
    played = play(Target(url, "hang"), [Ask(n / 10, "hello", 5) for n in range(100)], Bounds(block_s=0.55))
    assert time.monotonic() - began < 5
    assert [r.fault for r in played.replies] == ["timeout"] * 6
    assert (played.unsent_count, "0.55 s" in played.ended_early) == (94, True)


def test_a_server_that_has_gone_is_given_up(tmp_path: Path) -> None:
    engine = serve(tmp_path / "log")
    asks = [Ask(0, "hello", 5), *(Ask(0.3 + n / 100, "hello", 5) for n in range(100)), Ask(3600, "hello", 5)]
    try:
        played = play(Target(engine.url, "die"), asks, Bounds(give_up=True))
    finally:
        stop(engine)
    faults = [r.fault for r in played.replies]
    assert (faults[0], set(faults[1:])) == ("lost", {"refused"})
    assert GONE_COUNT <= faults.count("refused") < 100
    assert "not taken" in played.ended_early


def test_a_prompt_can_be_made_when_it_is_needed(url: str) -> None:
    made: list[float] = []

    def prompt() -> list[int]:
        made.append(time.monotonic())
        return [1, 2, 3]

    played = play(Target(url, "m"), [Ask(1.5, prompt, 5)], Bounds())
    assert played.replies[0].prompt_tokens == 3
    assert 0.3 < played.began_ns / 1e9 + 1.5 - made[0] < 1.1


def test_the_client_knows_when_it_was_away(url: str) -> None:
    def slow() -> list[int]:
        time.sleep(0.3)
        return [1]

    played = play(Target(url, "m"), [Ask(0.5, slow, 1), Ask(0.5, [1], 60)], Bounds())
    assert 0.2 * S_NS < max(played.stalls_ns) < 2 * S_NS
    assert 0 < played.busy_ratio < 1


def open_count(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return int(json.load(reply)["open_count"])


def test_ctrl_c_closes_what_is_open(url: str) -> None:
    code = ("import sys; from pellucid.collect.client.ask import Ask; from pellucid.collect.client.play import *; "
            "print('on', flush=True); play(Target(sys.argv[1], 'hang'), [Ask(0, 'x', 1)] * 5, Bounds())")  # fmt: skip
    player = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while open_count(url) < 5:
        assert player.poll() is None
        time.sleep(0.05)
    player.send_signal(signal.SIGINT)
    player.communicate(timeout=10)
    assert player.returncode not in (0, None)
    deadline = time.monotonic() + 5
    while open_count(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert open_count(url) == 0


def test_no_ask_is_no_reply(url: str) -> None:
    played = play(Target(url, "m"), [], Bounds())
    assert (played.replies, played.unsent_count, played.duration_ns) == ((), 0, 0)


SPOKEN = Dialect("x", exact_length={"go_on": True}, stream_options={"count": 1}, task=("more", "label"))


def test_a_body_speaks_the_engines_dialect() -> None:
    sent = body("m", Ask(0, [1, 2], 3, task="plan", extra={"temperature": 0}), SPOKEN)
    assert (sent["prompt"], sent["more"], sent["go_on"], sent["temperature"]) == ([1, 2], {"label": "plan"}, True, 0)
    assert sent["stream_options"] == {"include_usage": True, "count": 1}


def test_a_plain_body_has_fields_of_the_api_only() -> None:
    sent = body("m", Ask(0, [1, 2], 3, task="plan"), PLAIN)
    assert sent.keys() == {"model", "prompt", "max_tokens", "stream", "stream_options"}
    assert sent["stream_options"] == {"include_usage": True}


def test_an_event_in_two_pieces_has_the_time_of_the_second() -> None:
    stream = Stream()
    for time_ns, data in ((1, b'data: {"choices": [{"text"'), (2, b': "a"}]}\r\n\r\nda'), (3, b"ta: [DONE]\n\n")):
        stream.feed(time_ns, data)
    assert ([a.time_ns for a in stream.arrivals], stream.ended) == ([2], True)
