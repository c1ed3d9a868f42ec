"""The oldest minor that runs on a CPU: the same probe, everything at once on one engine, and the same laws hold.

It has few KV blocks, a mixture of experts and n-gram speculation, so every hook has something to see. Experts stay
blind there: on a CPU this version routes inside a kernel.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tests.engine.fact_table import committed_facts
from tools.real_engine import OLDER
from tools.recording import Served, serve
from tools.traffic.prompts import tokens

MINOR, MODEL = "0.28", "tiny-moe"
BLOCK, BLOCKS = 32, 64
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "8", "--block-size", str(BLOCK), "--num-gpu-blocks-override",
         str(BLOCKS), "--max-num-batched-tokens", "256", "--speculative-config", json.dumps(DRAFTS))  # fmt: skip


@dataclass(slots=True)
class Recorded:
    served: Served
    run: RunReader
    replies: list[Reply]

    def rows(self, part: str) -> list[dict[str, Any]]:
        names = [f"cmpl-{r.ask.request_id}-0" for r in self.replies if str(r.ask.request_id).startswith(part)]
        return [self.run.one("SELECT * FROM requests WHERE request_id = $id", {"id": name}) for name in names]


def asks(pick: random.Random) -> list[Ask]:
    """Shared prefixes one after the other, a crowd that does not fit the cache, a long prompt, one who leaves.

    And two that can say one token only, so drafts are right: not all are kept, since beside requests with other tokens
    allowed the engine was seen to reject some of these.
    """
    system = tokens(pick, 2 * BLOCK)
    return [
        Ask(0.0, f"{system} {tokens(pick, 9)}", 8, request_id="shared-0", task="plan"),
        Ask(1.0, f"{system} {tokens(pick, 5)}", 8, request_id="shared-1"),
        *(Ask(2.0 + n / 20, "t5 t6 t7 t8 " * 12, 400, request_id=f"crowd-{n}") for n in range(8)),
        Ask(2.6, tokens(pick, 900), 4, request_id="long-0", stream=False),
        Ask(2.7, tokens(pick, 40), 900, request_id="left-0", hang_up_tokens=5),
        *(Ask(0.5, tokens(pick, 20), 40, request_id=f"copy-{n}", extra={"allowed_token_ids": [99]}) for n in range(2)),
        *(Ask(pick.uniform(3, 5), tokens(pick, pick.randint(20, 90)), 20, request_id=f"late-{n}") for n in range(6)),
    ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = tmp_path_factory.mktemp("older")
    served = serve(MODEL, FLAGS, home, home / "engine.log", python=OLDER)
    try:
        replies = send(served.url, MODEL, asks(random.Random(28)))
        served.end()
        yield Recorded(served, open_run(served.folder()), replies)
    finally:
        served.end()


def test_every_fact_is_as_the_committed_table_has_it(recorded: Recorded) -> None:
    """As each process said it last: what depends on the model is known once it is loaded."""
    # A probe that is over its budget samples, then sheds, and says so. That is the machine's load, not the version.
    rows = recorded.run.rows("SELECT * FROM facts WHERE NOT regexp_matches(coalesce(reason, ''), '^(sampled|shed)')")
    seen = {(f["process"], f["fact"]): f for f in rows}.values()
    assert {(f["fact"], f["role"], f["state"]) for f in seen} == committed_facts(MINOR, "cpu", "speculation")
    assert all(f["reason"] for f in seen if f["state"] == "blind")
    versions = recorded.run.rows("SELECT DISTINCT engine_version FROM sources")
    assert [str(v["engine_version"]).rsplit(".", 1)[0] for v in versions] == [MINOR]


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(recorded: Recorded, law: str) -> None:
    assert broken(recorded.run, {law: LAWS[law]}) == {}


def test_the_engine_answers_all_and_nothing_goes_wrong_in_the_probe(recorded: Recorded) -> None:
    assert [r.status for r in recorded.replies] == [200] * len(recorded.replies)
    assert recorded.served.stubborn == []
    lost = recorded.run.one("SELECT sum(lost_count) AS lost, sum(torn_count) AS torn FROM sources")
    host = recorded.run.one("SELECT max(ring_dropped_count) AS dropped, max(probe_errors_count) AS errors FROM host")
    assert (lost, host) == ({"lost": 0, "torn": 0}, {"dropped": 0, "errors": 0})


def test_counts_are_those_the_client_was_told(recorded: Recorded) -> None:
    finished = [r for r in recorded.replies if r.ask.hang_up_tokens is None]
    told = [(r.prompt_tokens, r.output_tokens, r.finish_reason) for r in finished]
    rows = [recorded.rows(str(r.ask.request_id))[0] for r in finished]
    assert told == [(r["prompt_tokens"], r["output_tokens"], r["finish_reason"]) for r in rows]


def test_prefixes_preemptions_and_clients_that_leave_are_recorded(recorded: Recorded) -> None:
    first, second = recorded.rows("shared")
    assert (first["cached_tokens"], second["cached_tokens"]) == (0, 2 * BLOCK)
    assert (first["task"], first["task_source"]) == ("plan", "body")
    events = recorded.run.rows("SELECT event, count(*) AS n FROM request_events GROUP BY event")
    counted = {e["event"]: e["n"] for e in events}
    assert counted["preempted"] >= counted["rescheduled"] > 0
    (left,) = recorded.rows("left")
    assert (left["finish_reason"], left["aborted_by"]) == ("abort", "client")


def test_kv_lives_and_drafts_are_recorded(recorded: Recorded) -> None:
    run = recorded.run
    evicted = run.one("SELECT count(*) AS n FROM kv_residency WHERE removed_reason = 'evicted' AND removed_by NOT NULL")
    drafts = run.one("SELECT sum(drafted_count) AS drafted, sum(accepted_count) AS accepted, "
                     "sum(step_draft_ns) AS ns FROM speculation")  # fmt: skip
    told = run.one("SELECT sum(drafted_tokens) AS drafted, sum(accepted_tokens) AS accepted FROM requests")
    assert evicted["n"] > 0
    assert (drafts["drafted"], drafts["accepted"]) == (told["drafted"], told["accepted"])
    assert min(drafts["drafted"], drafts["accepted"], drafts["ns"]) > 0
    copies = recorded.rows("copy")
    assert all(r["accepted_tokens"] <= r["drafted_tokens"] for r in copies)
    assert sum(r["accepted_tokens"] for r in copies) > 0
