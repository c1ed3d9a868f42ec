"""Places in a prompt: the same for the same text, wherever it stands."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from pellucid_probe.kv_records import LOOKED_AT
from pellucid_probe.vllm.kv.marks import WINDOW
from pellucid_probe.vllm.kv.marks import marks as marks_of


def marks(tokens: list[int]) -> list[int]:
    return marks_of(bytes(token & 0xFF for token in tokens))


TOKENS = st.lists(st.integers(0, 200_000), max_size=300)


@given(TOKENS, TOKENS, TOKENS)
def test_what_stands_in_front_and_behind_changes_no_place(front: list[int], text: list[int], behind: list[int]) -> None:
    alone = marks(text)
    inside = [at - len(front) for at in marks([*front, *text, *behind])]
    last = len(text) - WINDOW
    assert [at for at in inside if 0 <= at <= last] == alone


@given(TOKENS)
def test_a_window_follows_each_place(text: list[int]) -> None:
    assert all(0 <= at <= len(text) - WINDOW for at in marks(text))


def test_how_many_there_are() -> None:
    pick = random.Random(4)
    text = [pick.randrange(150_000) for _ in range(LOOKED_AT)]
    assert 80 < len(marks(text)) < 200


def test_padding_and_placeholders_have_none() -> None:
    assert marks([7] * 1000) == []


def test_a_long_prompt_is_looked_at_in_part() -> None:
    pick = random.Random(4)
    text = [pick.randrange(150_000) for _ in range(3 * LOOKED_AT)]
    assert max(marks(text)) <= LOOKED_AT
    assert marks(text)[:50] == marks(text[:LOOKED_AT])[:50]
