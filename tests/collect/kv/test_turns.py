"""Which request goes on from which answer: the probe's records of a conversation, written and read."""

from __future__ import annotations

import pytest

from tests.collect.kv.test_lives import Bench

PROMPT, ANSWER = "abcdefghij", "klmnop"      # two blocks of four and two tokens; with the answer four blocks


@pytest.fixture
def bench() -> Bench:
    """One request that has been answered."""
    made = Bench()
    said(made, "first", PROMPT, ANSWER)
    return made


def said(bench: Bench, name: str, prompt: str, answer: str) -> int | None:
    """Asks, is answered and ends. What it follows."""
    bench.ask(name, prompt)
    blocks = list(range(100 * len(bench.numbers), 100 * len(bench.numbers) + len(prompt + answer) // 4 + 1))
    bench.admit(name, blocks)
    row = bench.rows["prefix_lookups"][-1]
    bench.let_go(name, blocks, prompt + answer)
    bench.lives.finished(bench.numbers[name])
    follows: int | None = row["follows"]
    return follows


def test_a_prompt_that_goes_on_from_an_answer_follows_it(bench: Bench) -> None:
    assert said(bench, "second", PROMPT + ANSWER + "?qrst", "uvwxyz") == bench.numbers["first"]
    assert said(bench, "third", PROMPT + ANSWER + "?qrstuvwxyz!", "abcd") == bench.numbers["second"]


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT + "other words", "X" + PROMPT + ANSWER, PROMPT + "klX" + "nopqrs"])
def test_another_question_behind_the_same_prompt_follows_nothing(bench: Bench, prompt: str) -> None:
    assert said(bench, "second", prompt, "123456") is None


def test_an_answer_that_fills_no_block_leaves_it_open(bench: Bench) -> None:
    said(bench, "short", "01234567", "ab")
    assert said(bench, "next", "01234567" + "ab" + "more of it", "1234") is None


def test_an_answer_is_followed_once(bench: Bench) -> None:
    assert said(bench, "second", PROMPT + ANSWER + "one way", "1234") == bench.numbers["first"]
    assert said(bench, "beside", PROMPT + ANSWER + "another", "5678") is None


def test_a_request_that_still_runs_is_not_followed(bench: Bench) -> None:
    bench.ask("running", "0123456789")
    bench.admit("running", [71, 72, 73])
    assert said(bench, "next", "0123456789abcdefgh", "1234") is None
