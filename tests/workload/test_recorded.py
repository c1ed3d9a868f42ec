"""A run becomes a workload: how much prompts share is as recorded, on literal rows and on runs of a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run
from pellucid.workload.file import Workload
from pellucid.workload.recorded import recorded
from pellucid.workload.statistics import statistics
from tests.workload.trace_files import columns

GOLDEN = Path(__file__).parent.parent / "golden"
BLOCKS = "process  tier    block_hash  tokens\np  device  h1  16\np  device  h2  16"
REQUESTS = """
process  request  arrival_ns  queued_ns  prompt_tokens  output_tokens  max_tokens  task  finish_reason
p        1        1000        1100       40             30             30          chat  stop
p        2        2000        2100       70             5              9           chat  length
p        3        -           3100       71             6              9           code  abort
p        4        4000        4100       8              1              1           -     stop
p        5        5000        -          -              -              -           -     -
"""


def made(tmp_path: Path, lookups: str, requests: str = REQUESTS, blocks: str | None = BLOCKS, **more: str) -> Workload:
    texts = {"requests": requests, "prefix_lookups": lookups, **more, **({"kv_residency": blocks} if blocks else {})}
    return recorded(open_run(build_run(tmp_path / "run", {n: table(t) for n, t in texts.items() if t})), "r")


LOOKUPS = """
process  request  family  time_ns  prompt_tokens  cached_tokens  evicted_tokens  skipped_tokens
p        1        f       1200     40             0              0               0
p        2        f       2200     70             48             0               0
p        3        f       3200     71             16             32              0
p        4        -       4200     8              0              0               0
"""


def test_requests_have_their_lengths_and_times(tmp_path: Path) -> None:
    found = made(tmp_path, LOOKUPS)
    assert columns(found, "arrival_ns", "prompt_tokens", "output_tokens", "max_tokens", "task") == [
        (0, 40, 30, 30, "chat"), (1000, 70, 5, 9, "chat"), (2100, 71, 6, 9, "code"), (3000, 8, 1, 1, None)]  # fmt: skip
    assert (found.about.left_out, found.about.read_count) == ({"no prompt": 1}, 5)
    assert {"session", "think_ns", "temperature", "top_p"} <= found.about.missing.keys()
    notes = " ".join(found.about.notes)
    assert "1 requests were not seen to arrive" in notes
    assert "1 requests were aborted or did not end" in notes


def test_a_prompt_shares_what_had_been_computed_before_with_the_latest_that_is_long_enough(tmp_path: Path) -> None:
    found = made(tmp_path, LOOKUPS)
    # 1 has four blocks with its answer; 2 begins with three of them, the third one answer; 3 begins as 2 does
    assert columns(found, "blocks", "block_tokens") == [
        ([0, 1], 16), ([0, 1, 2, 3], 16), ([0, 1, 2, 4], 16), ([], 16)]  # fmt: skip
    assert any("of 2 prompts had been computed before" in note for note in found.about.notes)


@pytest.mark.parametrize(
    ("second", "third", "blocks"),
    [
        ("f  64  0  0", "f  0   0  0", ([0, 1, 9, 9], [9, 9, 9, 9])),     # with the answer, in no prompt before
        ("g  64  0  0", "g  32  0  0", ([9, 9, 9, 9], [2, 3, 9, 9])),     # cached before the recording
        ("g  0   0  0", "f  32  0  0", ([9, 9, 9, 9], [0, 1, 9, 9])),     # another family lies between
        ("f  0   0  0", "f  32  0  0", ([9, 9, 9, 9], [2, 3, 9, 9])),     # the latest, though 1 is long enough
        ("f  16  0  0", "f  0   0  71", ([0, 9, 9, 9], [0, 9, 9, 9])),    # not looked for, the first block is the same
        ("g  16  0  0", "h  0   0  71", ([9, 9, 9, 9], [9, 9, 9, 9])),    # not looked for, and nobody had it
    ],
)  # fmt: skip
def test_with_whom_a_prompt_shares(tmp_path: Path, second: str, third: str, blocks: tuple[list[int], ...]) -> None:
    head = "process  request  family  cached_tokens  evicted_tokens  skipped_tokens  time_ns"
    found = made(tmp_path, f"{head}\np  1  f  0  0  0  1\np  2  {second}  2\np  3  {third}  3")
    seen = [b for (b,) in columns(found, "blocks")][1:3]
    earlier = {0, 1}
    for got, wanted in zip(seen, blocks, strict=True):
        assert isinstance(got, list)
        assert [n if n in earlier else 9 for n in got] == wanted
        earlier |= set(got)


def test_cores_have_caches_of_their_own(tmp_path: Path) -> None:
    lookups = LOOKUPS.replace("p        2 ", "q        2 ")
    found = made(tmp_path, lookups, REQUESTS.replace("p        2 ", "q        2 "), BLOCKS + "\nq  device  h3  16")
    assert columns(found, "blocks")[1] != ([0, 1, 2, 3],)
    assert any("2 engine cores have caches of their own" in note for note in found.about.notes)


def test_without_lookups_blocks_are_not_seen(tmp_path: Path) -> None:
    found = made(tmp_path, "")
    assert set(columns(found, "blocks", "block_tokens")) == {(None, None)}
    assert "no prefix lookup was recorded" in found.about.missing["blocks"]


def test_a_block_is_as_long_as_configured_where_lives_have_expired(tmp_path: Path) -> None:
    sources = 'process  engine  config_json\np  vllm  {"block_size": 32}\np  vllm  none'
    assert columns(made(tmp_path, LOOKUPS, blocks=None, sources=sources), "block_tokens")[0] == (32,)
    assert columns(made(tmp_path / "b", LOOKUPS, blocks=None), "block_tokens", "blocks")[0] == (None, None)


def test_a_run_without_requests_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="has no request"):
        made(tmp_path, "", "")
    with pytest.raises(CannotAnswer, match="1 requests, none with a prompt's length"):
        made(tmp_path / "b", "", "process  request\np  1")


@pytest.mark.parametrize("name", ["kv-holds-prefixes", "documents-in-turn", "id-last", "salt-each", "id-in-front"])
def test_prompts_of_a_real_run_share_what_was_recorded(name: str) -> None:
    """With a cache that forgets nothing, what was found and what was evicted would both be found."""
    reader = open_run(GOLDEN / name)
    said = reader.one("SELECT sum(cached_tokens + evicted_tokens) AS before, count(*) AS n FROM prefix_lookups")
    found = statistics(recorded(reader, name)).sharing
    assert found
    assert (found.seen_count, found.repeated_tokens) == (said["n"], said["before"])


def test_tasks_are_those_of_the_run() -> None:
    reader = open_run(GOLDEN / "kv-holds-prefixes")
    tasks = {row["task"] for row in reader.rows("SELECT DISTINCT task FROM requests")}
    assert {t for (t,) in columns(recorded(reader, "golden"), "task")} == tasks != {None}


TURNS = """
process  request  arrival_ns  last_token_ns  prompt_tokens  output_tokens  temperature  top_p  top_k  seeded
p        1        1000        2000           40             30             0.7          0.9    20     no
p        2        5000        6000           80             30             0.7          0.9    20     no
p        3        5500        7000           80             30             0.0          1.0    0      yes
p        4        9000        9900           120            30             -            -      -      -
p        5        100         200            40             30             -            -      -      -
"""
FOLLOWS = """
process  request  family  time_ns  prompt_tokens  cached_tokens  evicted_tokens  skipped_tokens  follows
p        5        g       100      40             0              0               0               -
p        1        f       1200     40             0              0               0               -
p        2        f       5100     80             64             0               0               1
p        3        f       5600     80             64             0               0               -
p        4        f       9200     120            96             0               0               2
"""


def test_turns_of_a_conversation_are_one_session_with_the_time_its_user_took(tmp_path: Path) -> None:
    found = made(tmp_path, FOLLOWS, TURNS)
    assert columns(found, "arrival_ns", "session", "think_ns") == [
        (0, None, None), (900, "1", None), (4900, "1", 3000), (5400, None, None), (8900, "1", 3000)]  # fmt: skip


def test_a_turn_that_came_before_the_answer_was_there_is_none(tmp_path: Path) -> None:
    found = made(tmp_path, FOLLOWS, TURNS.replace("5000  ", "1500  "))
    assert columns(found, "arrival_ns", "session")[2:] == [(1400, "1"), (5400, None), (8900, "1")]


def test_sampling_is_as_the_engine_did(tmp_path: Path) -> None:
    found = made(tmp_path, FOLLOWS, TURNS)
    assert columns(found, "temperature", "top_p", "top_k", "seeded")[1:4] == [
        (0.7, 0.9, 20, "no"), (0.7, 0.9, 20, "no"), (0.0, 1.0, 0, "yes")]  # fmt: skip
    assert not {"temperature", "session", "seeded"} & found.about.missing.keys()
