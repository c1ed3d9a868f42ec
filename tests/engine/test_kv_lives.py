"""KV block lives on a real engine: traffic whose every miss is known beforehand, with few blocks.

A block is 32 tokens. The requests go one after the other, so each finds what those before it left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from tools.recording import serve
from tools.traffic.prompts import WORDS

BLOCK, BLOCKS = 32, 120
FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "4", "--block-size", str(BLOCK),
         "--num-gpu-blocks-override", str(BLOCKS))  # fmt: skip
PICK = random.Random(11)


def words(count: int) -> list[int]:
    return [PICK.choice(WORDS) for _ in range(count)]


DOCUMENT, OTHER, SALTED, TEMPLATE, PLAIN = (words(10 * BLOCK + 5) for _ in range(5))
DATED = words(10 * BLOCK)
DATES = (words(3), words(8))     # in front of the same text: its blocks begin elsewhere
LONG = [words(20 * BLOCK) for _ in range(7)]     # together more than the pool holds

# name → prompt, more fields, (cached, by reason in tokens, tail), reason of the first miss
SCRIPT: list[tuple[str, list[int], dict[str, object], dict[str, int], str | None]] = [
    ("first", DOCUMENT, {}, {"never_seen": 320, "tail": 5}, "never_seen"),
    ("again", DOCUMENT, {}, {"cached": 320, "tail": 5}, None),
    ("whole-blocks", DOCUMENT[:320], {}, {"cached": 288, "tail": 32}, None),
    ("longer", [*DOCUMENT[:160], *OTHER[:170]], {}, {"cached": 160, "never_seen": 160, "tail": 10}, "never_seen"),
    ("short", PLAIN[:20], {}, {"tail": 20}, None),
    ("salt-none", SALTED, {}, {"never_seen": 320, "tail": 5}, "never_seen"),
    ("salt-one", SALTED, {"cache_salt": "one"}, {"salt": 320, "tail": 5}, "salt"),
    ("salt-one-again", SALTED, {"cache_salt": "one"}, {"cached": 320, "tail": 5}, None),
    ("salt-two", SALTED, {"cache_salt": "two"}, {"salt": 320, "tail": 5}, "salt"),
    ("template-one", TEMPLATE, {}, {"never_seen": 320, "tail": 5}, "never_seen"),
    ("template-two", [7, *TEMPLATE[1:]], {}, {"tokenisation": 320, "tail": 5}, "tokenisation"),
    ("date-one", [*DATES[0], *DATED], {}, {"never_seen": 320, "tail": 3}, "never_seen"),
    ("date-two", [*DATES[1], *DATED], {}, {"tokenisation": 320, "tail": 8}, "tokenisation"),
    ("log-probabilities", DOCUMENT, {"prompt_logprobs": 1}, {"skipped": 320, "tail": 5}, "skipped"),
    *[(f"long-{n}", prompt, {}, {"never_seen": 608, "tail": 32}, "never_seen") for n, prompt in enumerate(LONG)],
    ("evicted", DOCUMENT, {}, {"evicted": 320, "tail": 5}, "evicted"),
]


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunReader, list[Reply]]]:
    home = tmp_path_factory.mktemp("lives")
    served = serve("tiny-dense", FLAGS, home, home / "engine.log")
    asks = [
        Ask(0.0, prompt, 4, request_id=name, stream=False, after=n - 1 if n else None, extra=more)
        for n, (name, prompt, more, _, _) in enumerate(SCRIPT)
    ]
    try:
        replies = send(served.url, served.model, asks)
    finally:
        served.end()
    assert served.stubborn == []
    yield open_run(served.folder()), replies


REASONS = ("cached", "evicted", "salt", "lora", "multimodal", "tokenisation", "skipped", "never_seen", "tail")


@pytest.mark.parametrize("name", [s[0] for s in SCRIPT])
def test_every_miss_has_its_reason(lives: tuple[RunReader, list[Reply]], name: str) -> None:
    run, replies = lives
    _, prompt, _, tokens, reason = next(s for s in SCRIPT if s[0] == name)
    reply = next(r for r in replies if r.ask.request_id == name)
    assert reply.ok, reply.error
    row = run.one(f"SELECT l.* FROM prefix_lookups l JOIN requests r USING (process, request) "
                  f"WHERE r.request_id = 'cmpl-{name}-0'")  # fmt: skip
    assert {r: row[f"{r}_tokens"] for r in REASONS if row[f"{r}_tokens"]} == tokens
    assert row["miss_reason"] == reason
    assert row["prompt_tokens"] == len(prompt)


def test_who_evicted_and_when_is_told(lives: tuple[RunReader, list[Reply]]) -> None:
    run, _ = lives
    row = run.one("SELECT l.evicted_age_ns, b.request_id AS evictor FROM prefix_lookups l LEFT JOIN requests b "
                  "ON b.process = l.process AND b.request = l.evicted_by WHERE l.miss_reason = 'evicted'")  # fmt: skip
    assert str(row["evictor"]).startswith("cmpl-long-")
    assert 0 < row["evicted_age_ns"] < 600e9


def test_a_life_begins_is_hit_and_ends(lives: tuple[RunReader, list[Reply]]) -> None:
    run, _ = lives
    first = run.rows("SELECT b.* FROM kv_residency b JOIN requests r USING (process, request) "
                     "WHERE r.request_id = 'cmpl-first-0' ORDER BY cached_ns")  # fmt: skip
    assert len(first) == 10
    for life in first:
        assert (life["removed_reason"], life["tokens"], life["tier"]) == ("evicted", BLOCK, "device")
        assert life["cached_ns"] < life["last_used_ns"] < life["freed_ns"] <= life["removed_ns"]
        assert life["removed_by"] is not None
    assert sorted(life["hits_count"] for life in first) == [1, *[2] * 4, *[3] * 5]


def test_what_is_cached_is_what_the_engine_has(lives: tuple[RunReader, list[Reply]]) -> None:
    """At every reading of the engine's own count of hashes, which the probe takes once in eight steps."""
    run, _ = lives
    readings = run.rows("SELECT start_ns + schedule_ns AS at, kv_cached_blocks_count AS n FROM steps "
                        "WHERE step % 8 = 1 ORDER BY step")  # fmt: skip
    there = "SELECT count(DISTINCT (block_hash, kv_group)) AS n FROM kv_residency WHERE cached_ns <= {0} AND {1} > {0}"
    ours = [run.one(there.format(seen["at"], f"coalesce(removed_ns, {2**62})"))["n"] for seen in readings]
    assert ours == [seen["n"] for seen in readings]
    assert max(ours) == BLOCKS - 1


def test_no_hash_of_the_engine_and_no_prompt_is_written(lives: tuple[RunReader, list[Reply]]) -> None:
    run, _ = lives
    hashes = [row["block_hash"] for row in run.rows("SELECT DISTINCT block_hash FROM kv_residency")]
    assert all(len(h) == 16 for h in hashes)
    assert len(hashes) > 100


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(lives: tuple[RunReader, list[Reply]], law: str) -> None:
    assert broken(lives[0], {law: LAWS[law]}) == {}
