"""What a schedule is asked for: settings and requests are checked by name, prompts share what their numbers say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pellucid_probe.vllm.offline.asked import Asked, CannotServe, Prompts, refusal, requests, settings

TOLD = {"max_model_len": 64, "max_num_seqs": 2, "max_num_batched_tokens": 64, "num_gpu_blocks": 5, "block_size": 16}
ONE = {"arrival_ns": 3, "prompt_tokens": 5, "output_tokens": 1}


def asked(number: int = 0, prompt: int = 5, output: int = 1, blocks: tuple[int, ...] = (), size: int = 0) -> Asked:
    return Asked(number, 0, prompt, output, blocks, size, 0)


def equal_count(one: Sequence[int], other: Sequence[int]) -> int:
    """From the beginning on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize(("change", "words"), [
    ({"max_seqs": 3}, "no setting of a schedule: max_seqs"),
    ({"async_scheduling": True}, "no setting of a schedule: async_scheduling"),
    ({"block_size": None}, "block_size is None, not int"),
    ({"block_size": True}, "block_size is True, not int"),
    ({"max_num_seqs": 2.5}, "max_num_seqs is 2.5, not int"),
    ({"enable_prefix_caching": 1}, "enable_prefix_caching is 1, not bool"),
    ({"block_size": 0}, "1 token or more"),
    ({"num_gpu_blocks": 1}, "2 blocks"),
])  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotServe, match=words):
        settings(json.dumps({**TOLD, **change}))


def test_settings_that_make_sense_are_taken() -> None:
    told = {**TOLD, "watermark": 0, "scheduling_policy": "priority", "enable_prefix_caching": False}
    assert settings(json.dumps(told)) == told


@pytest.mark.parametrize("name", TOLD)
def test_a_setting_that_depends_on_the_device_has_to_be_told(name: str) -> None:
    with pytest.raises(CannotServe, match=f"a schedule needs {name}"):
        settings(json.dumps({n: v for n, v in TOLD.items() if n != name}))


@pytest.mark.parametrize(("line", "words"), [
    ("oh", "request 1: no JSON object in 'oh'"),
    (json.dumps({**ONE, "tokens": 1}), "request 1 has unknown tokens"),
    (json.dumps({**ONE, "output_tokens": 0}), "request 1: output_tokens is 0, not a number from 1 on"),
    (json.dumps({**ONE, "output_tokens": None}), "output_tokens is None"),
    (json.dumps({**ONE, "arrival_ns": 2}), "request 1 arrives at 2 ns, after one at 3"),
    (json.dumps({**ONE, "blocks": [1]}), "request 1 has blocks, and block_tokens 0"),
    (json.dumps({**ONE, "blocks": [1.5], "block_tokens": 4}), "whole numbers"),
])  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused_by_number(line: str, words: str) -> None:
    with pytest.raises(CannotServe, match=words):
        list(requests([json.dumps(ONE), line, ""]))


def test_an_empty_line_ends_the_list_and_nothing_else_does() -> None:
    line = json.dumps({**ONE, "blocks": [4, 9], "block_tokens": 4, "priority": -1})
    assert list(requests([line, "", "oh"])) == [Asked(0, 3, 5, 1, (4, 9), 4, -1)]
    with pytest.raises(CannotServe, match="without an empty line"):
        list(requests([line]))


@given(some.lists(some.tuples(some.integers(1, 60), some.lists(some.integers(-2, 3), max_size=6)), max_size=6))
def test_prompts_begin_alike_for_as_long_as_their_numbers_are_equal(drawn: list[tuple[int, list[int]]]) -> None:
    size, made = 8, Prompts()
    all_asked = [asked(n, length, blocks=tuple(blocks), size=size) for n, (length, blocks) in enumerate(drawn)]
    tokens = [made.tokens(one) for one in all_asked]
    for one, other in ((a, b) for a in all_asked for b in all_asked if a.number < b.number):
        equal = equal_count(one.blocks, other.blocks) * size
        shared = equal_count(tokens[one.number], tokens[other.number])
        assert shared == min(equal, one.prompt_tokens, other.prompt_tokens)
    assert [len(t) for t in tokens] == [one.prompt_tokens for one in all_asked]


@pytest.mark.parametrize(("prompt", "output", "words"), [
    (50, 14, None), (50, 15, "65 tokens with the answer, and max_model_len is 64"), (64, 1, "65 tokens"),
])  # fmt: skip
def test_what_is_longer_than_the_context_is_refused(prompt: int, output: int, words: str | None) -> None:
    found = refusal(asked(0, prompt, output), TOLD, None)
    assert found == words or (words is not None and found is not None and words in found)


def test_the_last_token_takes_no_room_in_the_cache() -> None:
    assert refusal(asked(0, 30, 3), TOLD, 32) is None
    assert refusal(asked(0, 30, 4), TOLD, 32) == "it needs KV blocks for 33 tokens, and those that can be used hold 32"
