"""One engine, everything at once: labels, long prompts, preemption, hang-ups, replies of several shapes.

The engine has few KV blocks and a small token budget, so long prompts go in chunks and long answers are preempted.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tests.engine.fact_table import committed_facts
from tools.recording import Served, serve
from tools.traffic.prompts import tokens

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SENT_NS, SENT_WALL_US = time.monotonic_ns(), time.time_ns() // 1000      # what one client claims, long before it sends
BLOCK, BLOCKS, BUDGET = 32, 120, 256
FLAGS = ("--max-model-len", "2560", "--max-num-seqs", "8", "--block-size", str(BLOCK), "--num-gpu-blocks-override",
         str(BLOCKS), "--max-num-batched-tokens", str(BUDGET))  # fmt: skip


@dataclass(slots=True)
class Mixed:
    served: Served
    run: RunReader
    replies: dict[str, list[Reply]]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The recorded requests of one part of the traffic, in the order in which they were sent."""
        return [self.row(reply) for reply in self.replies[name]]

    def alone(self) -> list[tuple[Reply, dict[str, Any]]]:
        return [(r, self.row(r)) for r in self.replies["in turn"] if r.ok]

    def row(self, reply: Reply) -> dict[str, Any]:
        return self.run.one(
            "SELECT * FROM requests WHERE request_id = $id", {"id": f"cmpl-{reply.ask.request_id}-0"}
        )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    home = tmp_path_factory.mktemp("mixed")
    served = serve("tiny-dense", FLAGS, home, home / "engine.log")
    try:
        yield record(served)
    finally:
        served.end()


def record(served: Served) -> Mixed:
    pick = random.Random(20)
    replies: dict[str, list[Reply]] = {}
    send(served.url, served.model, [Ask(0, tokens(pick, 8), 4)])
    for name, asks in traffic(pick).items():
        replies[name] = send(served.url, served.model, asks)
    vanish(served, tokens(pick, 40))
    send(served.url, served.model, [Ask(1.0, tokens(pick, 8), 4)])   # the engine goes on after the reset connection
    served.end()
    return Mixed(served, open_run(served.folder()), replies)


def traffic(pick: random.Random) -> dict[str, list[Ask]]:
    def ask(name: str, n: int, at_s: float, prompt: int, output: int, **more: Any) -> Ask:
        return Ask(at_s, tokens(pick, prompt), output, request_id=f"{name}-{n}", **more)

    system = tokens(pick, 64)
    return {
        # One after the other. Every second one is refused before the engine sees it: the way there and back, no more.
        "in turn": [
            ask("refused", n, 0.05, 1000, 48, after=n - 1 if n else None, extra={"temperature": -1}) if n % 2
            else ask("alone", n, 0.05, 1000, 48, after=n - 1 if n else None)
            for n in range(24)
        ],
        "labelled": [
            ask("labelled", 0, 0.0, 40, 20, task="plan"),
            ask("labelled", 1, 0.0, 40, 20, headers={
                "X-Pellucid-Task": "review", "traceparent": TRACE, "X-Request-Start": f"t={SENT_WALL_US}"}),
            Ask(0.0, f"{system} {tokens(pick, 9)}", 20, request_id="labelled-2"),
            Ask(0.5, f"{system} {tokens(pick, 5)}", 20, request_id="labelled-3"),
        ],
        "together": [
            ask("together", n, pick.uniform(0, 3), pick.randint(20, 200), pick.randint(10, 60), stream=n % 3 != 0)
            for n in range(24)
        ],
        "long": [
            *(ask("long", n, 0.0, 30, 150) for n in range(3)),
            *(ask("long", n, 0.3 * n, 1200, 4) for n in range(3, 6)),
        ],
        "crowded": [ask("crowded", n, 0.05 * n, 48, 640) for n in range(8)],
        "left": [
            # Long outputs: a client that is short of CPU hangs up late, and must not come after the end.
            *(ask("left", n, 0.0, 60, 1500, hang_up_tokens=10 + n) for n in range(3)),
            *(ask("left", n, 0.0, 60, 200) for n in range(3, 8)),
        ],
        "queue": [
            *(ask("queue", n, 0.0, 60, 1200) for n in range(8)),
            # Long enough after sending for a slow frontend to have queued them, before the others are done.
            *(ask("queue", n, 0.5, 60, 200, hang_up_s=1.5) for n in range(8, 12)),
        ],
    }


def vanish(served: Served, prompt: str) -> None:
    """A client that dies: the connection is reset while its tokens stream."""
    host, port = served.url.removeprefix("http://").split(":")
    body = f'{{"model": "{served.model}", "prompt": "{prompt}", "max_tokens": 400, "ignore_eos": true, "stream": true}}'
    with socket.create_connection((host, int(port))) as s:
        s.sendall(
            f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"X-Request-Id: vanished\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        seen = b""
        while seen.count(b"data: ") < 10:
            seen += s.recv(65536)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(mixed: Mixed, law: str) -> None:
    assert broken(mixed.run, {law: LAWS[law]}) == {}


def test_nothing_was_lost_or_wrong_in_the_probe(mixed: Mixed) -> None:
    lost = mixed.run.one("SELECT sum(lost_count) AS lost, sum(torn_count) AS torn FROM sources")
    host = mixed.run.one("SELECT max(ring_dropped_count) AS dropped, max(probe_errors_count) AS errors FROM host")
    assert (lost, host) == ({"lost": 0, "torn": 0}, {"dropped": 0, "errors": 0})


def test_no_process_stays_behind(mixed: Mixed) -> None:
    assert mixed.served.stubborn == []


def test_the_facts_are_those_of_the_committed_table(mixed: Mixed) -> None:
    """By version and process. A fact that quietly became blind fails here, and so does one that became visible."""
    # A probe that is over its budget samples and says so. That is the machine's load, not the engine's version.
    seen = mixed.run.rows(
        "SELECT DISTINCT role, fact, state, engine_version FROM facts "
        "WHERE reason IS NULL OR reason NOT LIKE 'sampled%'"
    )
    (version,) = {row["engine_version"] for row in seen} - {None}     # the recorder has none
    assert {(r["fact"], r["role"], r["state"]) for r in seen} == committed_facts(version, "cpu")


def test_every_request_is_recorded_once(mixed: Mixed) -> None:
    sent = sum(reply.status != 400 for replies in mixed.replies.values() for reply in replies)
    others = 3    # the first one, the one whose client died, the last one
    assert mixed.run.one("SELECT count(*) AS n FROM requests")["n"] == sent + others


def test_a_label_in_the_body_names_the_task(mixed: Mixed) -> None:
    row = mixed.rows("labelled")[0]
    assert (row["task"], row["task_source"]) == ("plan", "body")


def test_a_label_in_the_header_names_the_task_and_the_trace_is_kept(mixed: Mixed) -> None:
    row = mixed.rows("labelled")[1]
    assert (row["task"], row["task_source"], row["traceparent"]) == ("review", "header", TRACE)


def test_a_time_of_sending_in_the_header_is_placed_on_the_clock_of_the_rows(mixed: Mixed) -> None:
    plain, dated = mixed.rows("labelled")[:2]
    assert plain["sent_ns"] is None
    assert abs(dated["sent_ns"] - SENT_NS) < 20_000_000      # the wall clock may be slewed between the two


def test_the_environment_is_recorded_as_far_as_knobs_name_it(mixed: Mixed) -> None:
    (core,) = mixed.run.rows("SELECT config_json FROM processes WHERE role LIKE '%engine_core%'")
    config = json.loads(core["config_json"])
    known = {name: value for name, value in config.items() if name.startswith("env.")}
    assert known == {"env.VLLM_CPU_KVCACHE_SPACE": 1, "env.VLLM_CPU_NUM_OF_RESERVED_CPU": None}


def test_requests_with_the_same_first_block_are_one_task(mixed: Mixed) -> None:
    first, second = mixed.rows("labelled")[2:]
    assert first["task_source"] == "automatic"
    assert first["task"] == second["task"]
    assert first["task"] not in {row["task"] for row in mixed.rows("together")}


def test_a_shared_prefix_is_found_in_the_cache(mixed: Mixed) -> None:
    first, second = mixed.rows("labelled")[2:]
    assert (first["cached_tokens"], second["cached_tokens"]) == (0, 64)


def test_counts_are_those_the_client_was_told(mixed: Mixed) -> None:
    finished = [r for name in ("in turn", "together", "long", "crowded") for r in mixed.replies[name] if r.ok]
    told = [(r.prompt_tokens, r.output_tokens, r.finish_reason) for r in finished]
    rows = [mixed.row(r) for r in finished]
    assert told == [(r["prompt_tokens"], r["output_tokens"], r["finish_reason"]) for r in rows]


def test_long_prompts_went_in_chunks(mixed: Mixed) -> None:
    shares = mixed.run.rows(
        "SELECT tokens FROM step_requests WHERE request = $r AND process = $p AND phase = 'prefill'",
        {"r": mixed.rows("long")[3]["request"], "p": mixed.rows("long")[3]["process"]},
    )
    assert len(shares) >= 1200 / BUDGET
    assert sum(s["tokens"] for s in shares) == 1200


def test_a_full_cache_preempts_and_the_tokens_lost_are_counted(mixed: Mixed) -> None:
    rows = mixed.rows("crowded")
    assert sum(r["preemptions_count"] for r in rows) > 0
    assert sum(r["recomputed_tokens"] for r in rows) > 0
    events = mixed.run.rows("SELECT event, count(*) AS n FROM request_events GROUP BY event")
    counted = {e["event"]: e["n"] for e in events}
    told = mixed.run.one("SELECT sum(preemptions_count)::BIGINT AS n FROM requests")["n"]    # by the engine, at the end
    assert told == counted["preempted"] >= counted["rescheduled"] > 0    # one may leave before it runs again


def test_clients_that_hang_up_are_recorded_with_what_they_got(mixed: Mixed) -> None:
    for reply, row in zip(mixed.replies["left"][:3], mixed.rows("left")[:3], strict=True):
        assert (row["finish_reason"], row["aborted_by"]) == ("abort", "client")
        assert reply.output_tokens is not None
        assert reply.output_tokens <= row["output_tokens"] < 1500


def test_a_client_that_dies_is_recorded(mixed: Mixed) -> None:
    row = mixed.run.one("SELECT * FROM requests WHERE request_id = 'cmpl-vanished-0'")
    assert (row["finish_reason"], row["aborted_by"]) == ("abort", "client")
    assert 9 <= row["output_tokens"] < 400


def test_clients_that_leave_the_queue_are_recorded(mixed: Mixed) -> None:
    rows = [r for r in mixed.rows("queue")[8:] if r["scheduled_ns"] is None]
    assert rows, "no request was still waiting when its client hung up"
    assert {(r["finish_reason"], r["aborted_by"], r["first_token_ns"]) for r in rows} == {("abort", "client", None)}


def test_the_client_sees_each_moment_after_it_happened(mixed: Mixed) -> None:
    for reply in (r for name in ("in turn", "together", "crowded") for r in mixed.replies[name] if r.ok):
        row = mixed.row(reply)
        assert reply.sent_ns <= row["arrival_ns"]
        assert row["last_token_ns"] <= reply.end_ns
        if reply.first_token_ns is not None and reply.ask.stream:
            assert row["first_token_ns"] <= reply.first_token_ns


def there_and_back_ns(mixed: Mixed) -> float:
    """How long requests took that the frontend refused: the 90th percentile, since the first one loads code."""
    refused = [r for r in mixed.replies["in turn"] if r.status == 400]
    assert len(refused) == 12
    return statistics.quantiles((r.end_ns - r.sent_ns for r in refused), n=10)[-1]


def test_ttft_is_what_the_client_measured(mixed: Mixed) -> None:
    """And the way there and back, which is no longer than a refused request takes."""
    client = [reply.first_token_ns - reply.sent_ns for reply, _ in mixed.alone() if reply.first_token_ns]
    recorded = [row["first_delivered_ns"] - row["arrival_ns"] for _, row in mixed.alone()]
    beyond = [c - r for c, r in zip(client, recorded, strict=True)]
    assert min(beyond) >= 0
    assert statistics.median(beyond) <= there_and_back_ns(mixed)
    assert statistics.median(client) > there_and_back_ns(mixed), "a recording of zeros would pass"


def test_token_gaps_are_what_the_client_measured(mixed: Mixed) -> None:
    """From first to last token the ways cancel out, up to one of them."""
    client = [reply.arrivals[-1].time_ns - reply.arrivals[0].time_ns for reply, _ in mixed.alone()]
    recorded = [row["last_token_ns"] - row["first_token_ns"] for _, row in mixed.alone()]
    apart = [abs(c - r) for c, r in zip(client, recorded, strict=True)]
    assert statistics.median(apart) <= there_and_back_ns(mixed)
    assert statistics.median(client) > there_and_back_ns(mixed), "a recording of zeros would pass"
