"""Block lives from what the probe leaves, written and read through the records themselves."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pellucid_probe import kv_records
from pellucid_probe.records import Admit
from pellucid_probe.vllm.kv.lives import SAMPLED, Lives

from pellucid.collect.kv.lives import KvLives
from pellucid.collect.kv.pace import ROWS_A_MINUTE
from pellucid.collect.kv.remembered import Remembered
from pellucid.store.schema import TABLES

SIZE = 4      # tokens in a block


class Block:
    def __init__(self, block_id: int) -> None:
        self.block_id = block_id


class Bench:
    """An engine of one KV group, by hand: requests are numbered by name, steps by count."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {"kv_residency": [], "prefix_lookups": []}
        self.numbers: dict[str, int] = {}
        self.probe = Lives(b"k" * 32, lambda name: self.numbers.setdefault(name, len(self.numbers) + 1))
        self.probe.block_tokens = SIZE
        self.lives = KvLives(lambda: {"process": "core-1"}, self._row, b"k" * 32)
        self.now = self.steps = 0

    def _row(self, table: str, row: tuple[Any, ...]) -> None:
        self.rows[table].append(dict(zip(TABLES[table].names(), row, strict=True)))

    def send(self, found: list[tuple[int, bytes]]) -> None:
        for kind, payload in found:
            self.lives.take(kind, payload)

    def ask(
        self, name: str, prompt: str, salt: str | None = None, lora: str | None = None, skipped: bool = False
    ) -> None:
        kept = hashes(prompt, salt, lora)
        self.send(self.probe.prompt((name, kept, tokens(prompt), len(prompt), skipped, salt, lora)))

    def admit(self, name: str, blocks: list[int], found: int = 0, again: int = 0) -> None:
        self.now, self.steps = self.now + 10, self.steps + 1
        self.send(self.probe.taken((self.now, [[Block(b) for b in blocks[found // SIZE :]]])))
        number = self.numbers[name]
        self.send(self.probe.admitted(number, self.steps, [blocks]))
        self.lives.step(self.steps, self.now, [Admit(number, again, self.steps, found)])

    def let_go(self, name: str, blocks: list[int], text: str, for_good: bool = True) -> None:
        self.now += 10
        self.lives.step(self.steps + 1000, self.now, [])     # time goes on
        held = [Block(b) for b in blocks]
        self.send(self.probe.let_go((name, (held,), hashes(text), for_good)))
        self.send(self.probe.freed((self.now, held)))

    def lookup(self) -> dict[str, Any]:
        row = self.rows["prefix_lookups"][-1]
        keys = ("cached", *kinds(), "tail")
        assert sum(row[f"{k}_tokens"] for k in keys) == row["prompt_tokens"]
        return {k: row[f"{k}_tokens"] for k in keys if row[f"{k}_tokens"]} | {"reason": row["miss_reason"]}


def kinds() -> tuple[str, ...]:
    return ("evicted", "salt", "lora", "tokenisation", "skipped", "never_seen")


def tokens(text: str) -> list[int]:
    return [ord(c) for c in text]


def hashes(text: str, salt: str | None = None, lora: str | None = None) -> list[bytes]:
    """Of whole blocks, each over all before it, as the engine's."""
    ends = range(SIZE, len(text) + 1, SIZE)
    return [hashlib.sha256(repr((text[:end], salt, lora)).encode()).digest() for end in ends]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.ask("first", "abcdefghijklm")          # three whole blocks and one token
    made.admit("first", [1, 2, 3, 4])
    return made


def test_what_nobody_computed_was_never_seen(bench: Bench) -> None:
    assert bench.lookup() == {"never_seen": 12, "tail": 1, "reason": "never_seen"}


def test_a_hit_is_counted_for_the_life_of_its_block(bench: Bench) -> None:
    bench.let_go("first", [1, 2, 3, 4], "abcdefghijklm")
    bench.ask("second", "abcdefghXXXX")
    bench.admit("second", [1, 2, 5], found=8)
    assert bench.lookup() == {"cached": 8, "tail": 4, "reason": None}       # a lookup leaves out the last token
    bench.lives.end()
    lives = {row["block_hash"]: row for row in bench.rows["kv_residency"]}
    assert len(lives) == 4
    assert sorted(row["hits_count"] for row in lives.values()) == [0, 0, 1, 1]
    hit = [row for row in lives.values() if row["hits_count"]]
    assert all(row["freed_ns"] is None and row["last_used_ns"] > row["cached_ns"] for row in hit)


def test_an_evicted_block_says_who_took_it_and_when(bench: Bench) -> None:
    bench.let_go("first", [1, 2, 3, 4], "abcdefghijklm")
    bench.ask("taker", "0123456789xyz")
    bench.admit("taker", [3, 2, 7, 8])
    evicted_ns = bench.now
    bench.ask("again", "abcdefghijklm")
    bench.admit("again", [1, 9, 10, 11], found=4)
    assert bench.lookup() == {"cached": 4, "evicted": 8, "tail": 1, "reason": "evicted"}
    row = bench.rows["prefix_lookups"][-1]
    assert (row["evicted_by"], row["evicted_age_ns"]) == (bench.numbers["taker"], bench.now - evicted_ns)
    ended = [row for row in bench.rows["kv_residency"] if row["removed_reason"] == "evicted"]
    assert [row["removed_by"] for row in ended] == [bench.numbers["taker"]] * 2
    assert all(row["cached_ns"] <= row["freed_ns"] <= row["removed_ns"] == evicted_ns for row in ended)


@pytest.mark.parametrize(("salt", "lora", "reason"), [("s", None, "salt"), (None, "l", "lora")])
def test_the_same_tokens_under_another_salt_or_lora(
    bench: Bench, salt: str | None, lora: str | None, reason: str
) -> None:
    bench.ask("other", "abcdefghijklm", salt, lora)
    bench.admit("other", [5, 6, 7, 8])
    assert bench.lookup() == {reason: 12, "tail": 1, "reason": reason}
    bench.ask("same", "abcdefghijklm", salt, lora)
    bench.admit("same", [5, 6, 7, 9], found=12)
    assert bench.lookup() == {"cached": 12, "tail": 1, "reason": None}


def test_only_what_is_alike_counts_as_another_salt(bench: Bench) -> None:
    bench.ask("other", "abcdXXXXXXXXX", salt="s")
    bench.admit("other", [5, 6, 7, 8])
    assert bench.lookup() == {"salt": 4, "never_seen": 8, "tail": 1, "reason": "salt"}


def test_what_stands_behind_another_beginning_is_a_matter_of_tokens(bench: Bench) -> None:
    bench.ask("other", "Xbcdefghijklm")
    bench.admit("other", [5, 6, 7, 8])
    assert bench.lookup() == {"tokenisation": 12, "tail": 1, "reason": "tokenisation"}


def test_a_prompt_shifted_by_one_token_is_a_matter_of_tokens(bench: Bench) -> None:
    for name, prompt in (("later", "bcdefghijklmn"), ("earlier", "0abcdefghijkl")):
        bench.ask(name, prompt)
        bench.admit(name, [5, 6, 7, 8])
        assert bench.lookup()["reason"] == "tokenisation"


def test_a_request_the_engine_does_not_look_up(bench: Bench) -> None:
    bench.ask("odd", "abcdefghijklm", skipped=True)
    bench.admit("odd", [5, 6, 7, 8])
    assert bench.lookup() == {"skipped": 12, "tail": 1, "reason": "skipped"}


def test_a_prompt_below_a_block_cannot_be_found(bench: Bench) -> None:
    for name, prompt in (("one", "abc"), ("two", "abcd")):
        bench.ask(name, prompt)
        bench.admit(name, [5])
        assert bench.lookup() == {"tail": len(prompt), "reason": None}


def test_what_a_request_wrote_itself_lives_on_and_can_be_found(bench: Bench) -> None:
    text = "abcdefghijklmnopqrs"                   # four whole blocks, one of them written by the model
    bench.let_go("first", [1, 2, 3, 4, 5], text)
    bench.ask("turn", text + "tuvw")
    bench.admit("turn", [1, 2, 3, 4, 6, 7], found=16)
    assert bench.lookup() == {"cached": 16, "never_seen": 4, "tail": 3, "reason": "never_seen"}
    bench.lives.end()
    assert sorted(row["hits_count"] for row in bench.rows["kv_residency"]) == [0, 1, 1, 1, 1]


def test_a_block_is_free_when_all_have_let_go(bench: Bench) -> None:
    bench.ask("second", "abcdefghijklm")
    bench.admit("second", [1, 2, 3, 9], found=12)
    bench.let_go("first", [1, 2, 3, 4], "abcdefghijklm")
    bench.let_go("second", [1, 2, 3, 9], "abcdefghijklm")
    last = bench.now
    bench.lives.end()
    assert [row["freed_ns"] for row in bench.rows["kv_residency"]] == [last] * 3


def test_a_preempted_request_comes_back_to_its_blocks(bench: Bench) -> None:
    bench.let_go("first", [1, 2, 3, 4], "abcdefghijklm", for_good=False)
    bench.admit("first", [1, 2, 3, 5], found=12, again=1)
    assert len(bench.rows["prefix_lookups"]) == 1           # the first admission alone is a lookup of the prompt
    bench.let_go("first", [1, 2, 3, 5], "abcdefghijklm")
    bench.lives.end()
    assert [row["hits_count"] for row in bench.rows["kv_residency"]] == [1, 1, 1]


def test_an_emptied_cache_ends_every_life(bench: Bench) -> None:
    bench.let_go("first", [1, 2, 3, 4], "abcdefghijklm")
    bench.send(bench.probe.cleared(99))
    rows = bench.rows["kv_residency"]
    assert [(row["removed_reason"], row["removed_ns"]) for row in rows] == [("cleared", 99)] * 3
    bench.ask("again", "abcdefghijklm")
    bench.admit("again", [1, 2, 3, 4])
    assert bench.lookup()["reason"] == "evicted"


def test_a_later_chunk_brings_more_blocks() -> None:
    bench = Bench()
    bench.ask("long", "abcdefghijkl")
    bench.admit("long", [1])
    number = bench.numbers["long"]
    bench.send(bench.probe.more(number, bench.steps + 1, [[2, 3]]))
    bench.lives.step(bench.steps + 1, bench.now + 5, [])
    bench.lives.end()
    assert sorted(row["cached_ns"] for row in bench.rows["kv_residency"]) == [10, 15, 15]


def test_hashes_are_keyed_before_they_are_written(bench: Bench) -> None:
    bench.lives.end()
    raw = {h[:8].hex() for h in hashes("abcdefghijklm")}
    written = {row["block_hash"] for row in bench.rows["kv_residency"]}
    assert len(written) == 3
    assert not raw & written


def test_without_the_sites_key_no_hash_is_written() -> None:
    bench = Bench()
    bench.lives = KvLives(dict, bench._row, None)
    bench.ask("first", "abcdefghijklm")
    bench.admit("first", [1, 2, 3, 4])
    bench.lives.end()
    assert [row["block_hash"] for row in bench.rows["kv_residency"]] == [None] * 3


def test_a_request_not_seen_from_the_start_is_left_alone() -> None:
    bench = Bench()
    bench.numbers["lost"] = 1
    bench.admit("lost", [1, 2])
    bench.let_go("lost", [1, 2], "abcdefgh")
    assert bench.rows == {"kv_residency": [], "prefix_lookups": []}


def test_fewer_and_fewer_blocks_of_a_long_prompt_get_a_fingerprint() -> None:
    bench = Bench()
    bench.ask("long", "x" * SIZE * 5000)
    seen = bench.lives._asked[1]
    assert sorted(seen.prints) == [at for at in SAMPLED if at < 5000]
    assert len(seen.hashes) == 5000
    assert len(seen.prints) < 30


def test_records_come_back_as_they_were() -> None:
    fields, lists = (1, 16, 40, 1, 2**63, 7), ([b"a" * 8, b"b" * 8], [(0, b"p" * 8)])
    assert kv_records.unpack_prompt(kv_records.pack_prompt(fields, *lists)) == (*fields, *lists)
    assert kv_records.unpack_table(kv_records.pack_table(3, 2**33 + 5, 1, 2, [0, 9])) == (3, 5, 1, 2, [0, 9])
    assert kv_records.unpack_more(kv_records.pack_more(4, 6, [b"c" * 8])) == (4, 6, [b"c" * 8])
    assert kv_records.unpack_blocks(kv_records.pack_blocks(11, [1, 2])) == (11, [1, 2])


def test_of_very_many_lives_those_of_some_hashes_are_written_whole(bench: Bench) -> None:
    bench.rows["kv_residency"].clear()
    bench.lives._pace._rows, bench.lives._now_ns = ROWS_A_MINUTE - 100, 1
    texts = [f"{n:04}" for n in range(400)]
    for _ in range(2):
        for n, text in enumerate(texts):
            bench.numbers.pop("r", None)
            bench.ask("r", text + "x")
            bench.admit("r", [20 + n, 2])
        bench.send(bench.probe.cleared(bench.now))
    rows = bench.rows["kv_residency"]
    assert {row["stands_for_count"] for row in rows} == {1, 2}
    sampled = [row["block_hash"] for row in rows if row["stands_for_count"] == 2]
    assert 300 < len(sampled) * 2 < 1300
    assert len(sampled) > 1.6 * len(set(sampled))        # of a hash that is written, both lives are


def test_what_is_remembered_is_at_least_half_and_never_more_than_the_limit() -> None:
    held: Remembered[int, int] = Remembered(10)
    for n in range(100):
        held[n] = n
        assert all(k in held and held.get(k) == k for k in range(max(0, n - 4), n + 1))
        assert sum(k in held for k in range(n + 1)) <= 10
    held.forget(99)
    assert 99 not in held
    assert held.get(99) is None


def test_after_a_pause_nothing_is_known_of_what_was_there(bench: Bench) -> None:
    bench.send(bench.probe.lost(99))
    assert [(row["removed_reason"], row["removed_ns"]) for row in bench.rows["kv_residency"]] == [("unknown", None)] * 3
    bench.ask("again", "abcdefghijklm")
    bench.admit("again", [1, 2, 3, 9], found=4)
    assert bench.lookup() == {"cached": 4, "evicted": 8, "tail": 1, "reason": "evicted"}
    assert bench.rows["prefix_lookups"][-1]["evicted_age_ns"] is None
