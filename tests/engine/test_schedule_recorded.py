"""The engine's own scheduler on virtual time against the same engine that served: recordings, step by step.

What was asked is made of the recording as a prediction does it: lengths, and blocks that prompts share, in a workload.
Steps take as long as they took, and a request arrives with the step before which the engine had queued it, so that only
the scheduling is compared: what is planned in each step has to be what was.

    recorded   step 137  running 5  waiting 1  54 KV blocks  83 tokens scheduled  1 preempted
    virtual    the same
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import pytest

from pellucid.collect.vllm.schedule import Request, Schedules
from pellucid.collect.vllm.schedule_lines import PlannedStep
from pellucid.collect.vllm.schedule_settings import Settings, not_driven, settings_of
from pellucid.store.read import RunReader, open_run
from pellucid.workload.recorded import recorded
from tools.real_engine import PYTHON, ROOT

# Preemptions; waiting for KV; prefixes found; caps of requests and of tokens; long prompts; one burst; 32 at once.
RUNS = ("few-blocks", "full-cache", "kv-waits", "kv-fits", "kv-holds-prefixes", "id-last", "sequence-cap",
        "token-budget", "long-prompts", "one-burst", "healthy", "moderate-host")  # fmt: skip
COLUMNS = ("running_count", "waiting_count", "kv_used_blocks_count", "preempted_count", "scheduled_tokens",
           "prefill_requests_count", "decode_requests_count")  # fmt: skip
# In the order of the workload's rows.
REQUESTS = """
SELECT coalesce(arrival_ns, submitted_ns, queued_ns) AS asked_ns, queued_ns, request, cached_tokens, preemptions_count
FROM requests WHERE prompt_tokens > 0 ORDER BY asked_ns
"""
CONFIG = "SELECT DISTINCT config_json FROM sources WHERE config_json LIKE '%block_size%'"


@dataclass(frozen=True, slots=True)
class Compared:
    recorded: list[dict[str, int]]       # a row for each step
    virtual: list[dict[str, int]]
    recorded_requests: list[tuple[int, int]]     # cached tokens, preemptions; in order of arrival
    virtual_requests: list[tuple[int, int]]


@pytest.fixture(scope="module")
def engine() -> Iterator[Schedules]:
    with Schedules(str(PYTHON)) as schedules:
        yield schedules


@pytest.fixture(scope="module", params=RUNS)
def compared(engine: Schedules, request: pytest.FixtureRequest) -> Compared:
    run = golden(request.param)
    steps, rows = run.rows("SELECT * FROM steps ORDER BY step"), run.rows(REQUESTS)
    starts_ns = [s["start_ns"] - steps[0]["start_ns"] for s in steps]
    order = sorted(range(len(rows)), key=lambda place: (rows[place]["queued_ns"], rows[place]["request"]))
    workload = recorded(run, request.param).requests.to_pylist()
    virtual: list[dict[str, int]] = []

    def step_ns(step: PlannedStep) -> int:
        """To the start of the next; to its own end, where the engine was idle then."""
        virtual.append(counts(step))
        here = min(step.step, len(steps) - 1)
        busy = here + 1 < len(steps) and steps[here + 1]["host_gap_ns"] is not None
        end_ns: int = starts_ns[here + 1] if busy else steps[here]["end_ns"] - steps[0]["start_ns"]
        return max(end_ns - step.start_ns, 0)

    arrivals_ns = [starts_ns[bisect_left(steps, rows[n]["queued_ns"], key=lambda s: s["start_ns"])] for n in order]
    asked = [
        Request(at_ns, w["prompt_tokens"], w["output_tokens"], w["blocks"], w["block_tokens"])
        for at_ns, w in zip(arrivals_ns, (workload[n] for n in order), strict=True)
    ]
    found = engine.ask(settings(run), asked, step_ns)
    return Compared(
        [{column: step[column] for column in COLUMNS} for step in steps], virtual,
        [(rows[n]["cached_tokens"], rows[n]["preemptions_count"]) for n in order],
        [(s.cached_tokens, s.preemptions_count) for s in found.served],
    )  # fmt: skip


def golden(name: str) -> RunReader:
    return open_run(ROOT / "tests/golden" / name)


def settings(run: RunReader) -> Settings:
    config = json.loads(run.one(CONFIG)["config_json"])
    assert not_driven(config) == ()
    return settings_of(config, str(ROOT / config["model"]))


def counts(step: PlannedStep) -> dict[str, int]:
    told = {name: getattr(step, name) for name in COLUMNS[:4]}
    scheduled = sum(p.tokens for p in step.prefills) + step.decode_count
    return {**told, "scheduled_tokens": scheduled, "prefill_requests_count": len(step.prefills),
            "decode_requests_count": step.decode_count}  # fmt: skip


def test_every_step_is_planned_as_it_was(compared: Compared) -> None:
    pairs = zip_longest(compared.recorded, compared.virtual)
    assert [(step, *pair) for step, pair in enumerate(pairs) if pair[0] != pair[1]] == []


def test_each_request_finds_in_the_cache_what_it_found_and_is_preempted_as_often(compared: Compared) -> None:
    assert compared.virtual_requests == compared.recorded_requests


def test_the_recordings_have_what_they_are_there_for() -> None:
    assert golden("few-blocks").one("SELECT sum(preempted_count) AS n FROM steps")["n"] == 98
    assert golden("id-last").one("SELECT sum(cached_tokens) AS n FROM requests")["n"] == 255_360
    assert golden("kv-waits").one("SELECT max(waiting_kv_count) AS n FROM steps")["n"] > 0
    assert golden("moderate-host").one("SELECT max(running_count) AS n FROM steps")["n"] == 32
