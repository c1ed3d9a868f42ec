"""Structured outputs on a real engine: the time that masks take is told of each step, and is nothing without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pellucid.store.read import RunReader, open_run
from tools.recording import serve

FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "4")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
          "required": ["city", "people"]}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunReader]:
    home: Path = tmp_path_factory.mktemp("structured")
    served = serve("gemma-3-270m", FLAGS, home, home / "engine.log")
    try:
        for name, more in (("plain", {}), ("masked", {"response_format": FORMAT}), ("again", {})):
            body = {"model": served.model, "messages": [{"role": "user", "content": "A city and how many live there."}],
                    "max_tokens": 32, **more}  # fmt: skip
            headers = {"X-Request-Id": name}
            httpx.post(f"{served.url}/v1/chat/completions", json=body, headers=headers, timeout=120).raise_for_status()
    finally:
        served.end()
    yield open_run(served.folder())


def steps(run: RunReader, name: str) -> list[tuple[int, int]]:
    """(time in masks, whole time) of each step that computed for a request, ns."""
    rows = run.rows("SELECT s.grammar_ns AS masks, s.end_ns - s.start_ns AS whole FROM step_runs AS x "
                    "JOIN steps AS s ON s.process = x.process AND s.step BETWEEN x.first_step AND x.last_step "
                    "JOIN requests AS r ON r.process = x.process AND r.request = x.request "
                    "WHERE r.request_id LIKE '%' || $name || '%'", {"name": name})  # fmt: skip
    return [(row["masks"], row["whole"]) for row in rows]


def test_masks_take_time_in_the_steps_of_who_asked_for_them(run: RunReader) -> None:
    masked = steps(run, "masked")
    assert len(masked) >= 8
    assert sum(masks > 0 for masks, _ in masked) >= len(masked) - 2      # the first computes the prompt
    assert all(0 <= masks < whole for masks, whole in masked)


@pytest.mark.parametrize("name", ["plain", "again"])
def test_without_a_grammar_they_take_none(run: RunReader, name: str) -> None:
    found = steps(run, name)
    assert found and {masks for masks, _ in found} == {0}


def test_the_format_is_what_was_asked_for(run: RunReader) -> None:
    rows = run.rows("SELECT request_id, response_format FROM requests")
    assert {row["request_id"].split("-")[1]: row["response_format"] for row in rows} == {
        "plain": "text", "masked": "json", "again": "text"}  # fmt: skip


def test_the_fact_is_visible(run: RunReader) -> None:
    assert run.one("SELECT state FROM facts WHERE fact = 'step.grammar'")["state"] == "visible"
