"""Text that comes again in another place: behind a date of another length, in another order."""

from __future__ import annotations

import hashlib
import random

import pytest
from pellucid_probe.kv_records import unpack_prompt
from pellucid_probe.vllm.kv.lives import Lives

from pellucid.collect.kv.asked import asked
from pellucid.collect.kv.misses import Misses

WORDS = range(1000, 120_000)


class Asking:
    """Prompts of one engine with blocks of so many tokens, nothing of which is ever found."""

    def __init__(self, block_tokens: int) -> None:
        self.probe = Lives(b"k" * 32, lambda _: 1)
        self.probe.block_tokens = block_tokens
        self.misses = Misses(lambda _: False)

    def ask(self, tokens: list[int], salt: str | None = None, lora: str | None = None) -> list[str]:
        size, past, hashes = self.probe.block_tokens, f"{salt} {lora}".encode(), []
        for at in range(0, len(tokens) - size + 1, size):
            past = hashlib.sha256(past + str(tokens[at : at + size]).encode()).digest()
            hashes.append(past)
        (_, payload), = self.probe.prompt(("r", hashes, tokens, len(tokens), False, salt, lora, ()))
        seen = asked(unpack_prompt(payload))
        reasons = self.misses.reasons(seen, 0)
        self.misses.remember(seen)
        return reasons


def text(pick: random.Random, count: int) -> list[int]:
    return pick.choices(WORDS, k=count)


@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("count", [500, 3000, 20_000])
@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (0, 11), (11, 0), (5, 133)])
def test_behind_something_of_another_length_it_is_a_matter_of_tokens(
    block: int, count: int, before: int, after: int
) -> None:
    """All but blocks at the border, which may count as new: not more than a tenth of them, and hardly any of many."""
    pick, bench = random.Random(f"{block} {count} {before} {after}"), Asking(block)
    same = text(pick, count)
    assert set(bench.ask([*text(pick, before), *same])) == {"never_seen"}
    reasons = bench.ask([*text(pick, after), *same])[-(-after // block) :]
    assert set(reasons) <= {"tokenisation", "never_seen"}
    assert reasons.count("never_seen") <= 0.1 * len(reasons)


@pytest.mark.parametrize(("salt", "lora"), [("s", None), (None, "l")])
def test_elsewhere_and_under_another_salt_or_lora(salt: str | None, lora: str | None) -> None:
    pick, bench = random.Random(2), Asking(16)
    same = text(pick, 1000)
    bench.ask([1, 2, 3, *same])
    assert set(bench.ask([4, 5, 6, 7, 8, *same], salt, lora)) == {"salt" if salt else "lora"}


def test_other_text_stays_new_however_much_of_it_comes() -> None:
    pick, bench = random.Random(3), Asking(16)
    for _ in range(200):
        assert set(bench.ask(text(pick, 700))) == {"never_seen"}


def test_of_a_prompt_with_old_and_new_text_each_has_its_reason() -> None:
    """Documents in another order, with a new one between: blocks near a border may have either."""
    pick, bench = random.Random(5), Asking(16)
    one, two, new = (text(pick, 600) for _ in range(3))
    bench.ask([*one, *two])
    reasons = bench.ask([9, 9, 9, *two, *new, *one])
    assert set(reasons[:32]) == {"tokenisation"}
    assert set(reasons[45:70]) == {"never_seen"}
    assert set(reasons[82:]) == {"tokenisation"}


def test_a_phrase_that_many_use_is_no_shared_prompt() -> None:
    pick, bench = random.Random(6), Asking(16)
    phrase = text(pick, 24)
    bench.ask([*text(pick, 700), *phrase, *text(pick, 700)])
    reasons = bench.ask([*text(pick, 500), *phrase, *text(pick, 900)])
    assert reasons.count("never_seen") > 0.9 * len(reasons)


def test_what_is_asked_for_again_is_remembered_however_much_comes_between() -> None:
    pick, bench = random.Random(7), Asking(16)
    same = text(pick, 300)
    bench.ask([1, 2, *same])
    for n in range(40):
        for _ in range(100):
            bench.ask(text(pick, 1000))
        assert "tokenisation" in bench.ask([*range(1, 4 + n % 7), *same])[-5:]
