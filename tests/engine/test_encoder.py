"""Real engines with a model that sees: prompts with images, some of them the same, and prompts without."""

from __future__ import annotations

import base64
import random
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pellucid.collect.kv.misses import REASONS
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tests.engine.fact_table import committed_facts
from tools.real_engine import OLDER, PYTHON
from tools.recording import serve
from tools.traffic.prompts import tokens

MODEL, OUTPUT = "tiny-sighted", 8
IMAGE_TOKENS, PROMPT, PAGE = 8, 20, 100
TOLD_S = 3.0      # the worker is killed at the end; what it said of itself and its last steps is read before
CHAT = "/v1/chat/completions"
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "8", "--block-size", "32")
RED, BLUE = (200, 0, 0), (0, 0, 200)
# Name, and the colour of its image. One after the other; pages have the same text, the others one of their own each.
SCRIPT = (("first", None), ("red", RED), ("words", None), ("blue", BLUE), ("same", RED), ("more", None),
          ("page.red", RED), ("page.blue", BLUE), ("page.same", RED))  # fmt: skip
# Of the pages, in tokens; a block is 32 of them.
MISSES = {"page.red": {"never_seen": 96, "tail": 12}, "page.blue": {"multimodal": 96, "tail": 12},
          "page.same": {"cached": 96, "tail": 12}}  # fmt: skip


@dataclass(slots=True)
class Sighted:
    run: RunReader
    replies: list[Reply]


def picture(colour: tuple[int, int, int]) -> str:
    """A data URL of a PNG of one colour, 64 by 48 pixels."""
    width, height = 64, 48

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = (b"\0" + bytes(colour) * width) * height
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def ask(index: int) -> Ask:
    name, colour = SCRIPT[index]
    text = tokens(random.Random(len(SCRIPT)), PAGE) if name in MISSES else tokens(random.Random(index), PROMPT)
    content: list[dict[str, object]] = [{"type": "text", "text": text}]
    if colour is not None:
        content.insert(0, {"type": "image_url", "image_url": {"url": picture(colour)}})
    messages = [{"role": "user", "content": content}]
    return Ask(0, "", OUTPUT, request_id=name, path=CHAT, after=index - 1 if index else None,
               extra={"messages": messages})  # fmt: skip


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def sighted(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sighted]:
    home = tmp_path_factory.mktemp("sighted")
    served = serve(MODEL, FLAGS, home, home / "engine.log", python=request.param)
    try:
        replies = send(served.url, MODEL, [ask(n) for n in range(len(SCRIPT))])
        time.sleep(TOLD_S)
    finally:
        served.end()
    assert served.stubborn == []
    yield Sighted(open_run(served.folder()), replies)


def test_all_are_answered_and_an_image_is_so_many_tokens(sighted: Sighted) -> None:
    assert [(r.ok, r.output_tokens, r.error) for r in sighted.replies] == [(True, OUTPUT, "")] * len(SCRIPT)
    assert [r.prompt_tokens for r in sighted.replies] == [
        (PAGE if name in MISSES else PROMPT) + (IMAGE_TOKENS if colour is not None else 0) for name, colour in SCRIPT
    ]


def test_the_encoders_time_is_seen_in_every_step_and_is_part_of_it(sighted: Sighted) -> None:
    row = sighted.run.one("""
        SELECT count(*) AS steps, count(encoder_ns) AS seen, count(*) FILTER (encoder_ns > worker_ns) AS more,
               count(draft_ns) + count(lora_ns) AS others FROM steps WHERE worker_ns IS NOT NULL""")
    # The worker's record of the first step of all may be read before the engine core is known.
    assert row["steps"] == row["seen"] >= OUTPUT * len(SCRIPT) - 1
    assert (row["more"], row["others"]) == (0, 0)


def test_the_encoder_works_in_the_first_step_of_a_request_with_a_new_image_and_in_no_other(sighted: Sighted) -> None:
    """The engine keeps what it encoded, so the same image is not encoded again."""
    rows = sighted.run.rows("""
        SELECT q.request_id AS id, s.step = min(r.first_step) OVER (PARTITION BY r.process, r.request) AS first
        FROM steps s JOIN step_runs r ON r.process = s.process AND s.step BETWEEN r.first_step AND r.last_step
        JOIN requests q ON q.process = r.process AND q.request = r.request
        QUALIFY s.encoder_ns > 0 ORDER BY s.step""")
    assert [(str(r["id"]).split("-")[1], r["first"]) for r in rows] == [("red", True), ("blue", True)]


def test_a_page_with_another_image_is_missed_for_the_image_and_with_the_same_is_found(sighted: Sighted) -> None:
    rows = sighted.run.rows("""
        SELECT split_part(q.request_id, '-', 2) AS name, l.* FROM prefix_lookups l JOIN requests q
        USING (process, request) WHERE q.request_id LIKE '%page%'""")
    kinds = ("cached", *REASONS, "tail")
    assert {r["name"]: {k: n for k in kinds if (n := r[f"{k}_tokens"])} for r in rows} == MISSES
    first = {r["name"]: r["miss_reason"] for r in rows}
    assert first == {"page.red": "never_seen", "page.blue": "multimodal", "page.same": None}


def test_the_facts_of_the_encoder_are_those_of_the_committed_table(sighted: Sighted) -> None:
    seen = sighted.run.rows(
        "SELECT DISTINCT fact, role, state, engine_version FROM facts WHERE fact LIKE 'worker.encoder%'")
    (version,) = {r["engine_version"] for r in seen}
    known = committed_facts(version, "cpu", "multimodal") - committed_facts(version, "cpu")
    assert {(r["fact"], r["role"], r["state"]) for r in seen} == known


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(sighted: Sighted, law: str) -> None:
    assert broken(sighted.run, {law: LAWS[law]}) == {}
