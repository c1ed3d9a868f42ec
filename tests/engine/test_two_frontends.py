"""Two API server processes before one engine core, with n-gram speculation: both join to its steps."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tools.real_engine import COMMAND_LINE, name_engine
from tools.recording import serve
from tools.traffic.prompts import tokens

FLAGS = (
    "--max-model-len", "2048", "--max-num-seqs", "8", "--api-server-count", "2", "--speculative-config",
    '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}',
)  # fmt: skip


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunReader, list[Reply]]]:
    home = tmp_path_factory.mktemp("two")
    named = name_engine(home / "named")
    served = serve("tiny-dense", FLAGS, home, home / "engine.log", env=named, entry=COMMAND_LINE)
    pick = random.Random(3)
    phrase = tokens(pick, 12)
    asks = [
        # A repeated phrase lets the n-gram proposer propose; half of the answers are drawn, so some of it is rejected.
        Ask(pick.uniform(0, 4), " ".join([phrase] * 4), 60, f"task-{n % 2}", f"two-{n}", extra={"temperature": n % 2})
        for n in range(24)
    ]
    try:
        replies = send(served.url, served.model, asks)
    finally:
        served.end()
    assert served.stubborn == []
    yield open_run(served.folder()), replies


def test_every_request_answered_is_recorded_with_its_arrival(two: tuple[RunReader, list[Reply]]) -> None:
    run, replies = two
    rows = run.rows("SELECT request_id, output_tokens, arrival_ns, first_delivered_ns, task FROM requests")
    by_id = {row["request_id"]: row for row in rows}
    assert len(rows) == len(by_id) == len(replies)
    for reply in replies:
        row = by_id[f"cmpl-{reply.ask.request_id}-0"]
        assert (row["output_tokens"], row["task"]) == (reply.output_tokens, reply.ask.task)
        assert reply.sent_ns <= row["arrival_ns"] < row["first_delivered_ns"] <= reply.end_ns


def test_both_frontends_took_requests(two: tuple[RunReader, list[Reply]]) -> None:
    run, _ = two
    taken = run.rows("SELECT client_index, count(*) AS n FROM requests GROUP BY 1 ORDER BY 1")
    sources = run.rows("SELECT DISTINCT process FROM sources WHERE role = 'frontend'")
    assert [row["client_index"] for row in taken] == [0, 1]
    assert len(sources) == 2


def test_drafts_are_counted_and_some_are_rejected(two: tuple[RunReader, list[Reply]]) -> None:
    run, _ = two
    steps = run.one("SELECT sum(draft_tokens) AS drafted, sum(accepted_tokens) AS accepted FROM steps")
    requests = run.one("SELECT sum(drafted_tokens) AS drafted, sum(accepted_tokens) AS accepted FROM requests")
    assert 0 <= steps["accepted"] < steps["drafted"]
    assert steps == requests


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(two: tuple[RunReader, list[Reply]], law: str) -> None:
    assert broken(two[0], {law: LAWS[law]}) == {}
