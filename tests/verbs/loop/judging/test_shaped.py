"""A workload's requests in our own text: as long, as alike, and as asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pellucid.verbs.loop.judging.shaped import Size, Text, shaped, sized
from pellucid.workload.file import SCHEMA
from pellucid.workload.neutral import JSON_OBJECT, Prompt

PLAIN = tuple(tuple(range(100 * n, 100 * n + 30)) for n in range(1, 9))
JSON = tuple(tuple(range(100 * n, 100 * n + 6)) for n in range(20, 23))
TEXT = Text((7,), PLAIN, JSON)
AS_IS = Size(1.0, 1000, 64)


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"block_tokens": 16 if "blocks" in row else None, **row} for row in rows], SCHEMA)


def made(*rows: dict[str, Any], size: Size = AS_IS, ratio: float = 1.0) -> list[Prompt]:
    return shaped(table(*rows), size, TEXT, ratio, seed=0)


def alike(one: Prompt, other: Prompt) -> int:
    """Tokens with which both begin."""
    pairs = zip(one.content, other.content, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one.content), len(other.content)))


TREE = (
    {"prompt_tokens": 80, "blocks": [0, 1, 2], "output_tokens": 9}, {"prompt_tokens": 90, "blocks": [0, 1, 3]},
    {"prompt_tokens": 70, "blocks": [0, 4]}, {"prompt_tokens": 60, "blocks": [5]}, {"prompt_tokens": 60},
)  # fmt: skip


def test_prompts_are_as_long_and_as_alike_as_the_requests() -> None:
    one, two, three, four, five = made(*TREE)
    assert [len(p.content) for p in (one, two, three, four, five)] == [80, 90, 70, 60, 60]
    assert (alike(one, two), alike(one, three), alike(two, three)) == (32, 16, 16)
    assert max(alike(one, four), alike(four, five)) == 1          # what the tokenizer puts before


def test_a_prompt_ends_with_a_whole_text_also_where_its_request_is_shorter() -> None:
    assert {p.content[-30:] for p in (*made(*TREE), *made({"prompt_tokens": 5}))} <= set(PLAIN)
    (json,) = made({"prompt_tokens": 40, "response_format": "json_schema"})
    assert json.content[-6:] in JSON and len(json.content) == 40 and json.response_format == JSON_OBJECT


def test_all_shrink_by_one_ratio_and_share_the_same_part() -> None:
    one, two, three, *_ = made(*TREE, size=Size(0.5, 1000, 64))
    assert [len(p.content) for p in (one, two, three)] == [46, 46, 38]      # what they share, and a text of 30
    assert (alike(one, two), alike(one, three)) == (16, 8)


def test_requests_that_are_too_long_or_empty_are_left_out() -> None:
    assert [len(p.content) for p in made({"prompt_tokens": 0}, {"prompt_tokens": 50}, {"prompt_tokens": 1001})] == [50]


def test_sampling_task_and_length_are_those_of_the_request() -> None:
    (one,) = made({"prompt_tokens": 30, "output_tokens": 50, "task": "chat", "temperature": 0.3, "top_p": 0.9})
    assert (one.task, one.max_tokens, one.temperature, one.top_p) == ("chat", 50, 0.3, 0.9)
    most = [made({"prompt_tokens": 30, "output_tokens": n, "max_tokens": 20}, ratio=0.5)[0].max_tokens
            for n in (50, 900, 1, None)]  # fmt: skip
    assert most == [25, 64, 1, 10]


def test_requests_that_are_all_shared_are_the_same_prompt() -> None:
    one, two = made({"prompt_tokens": 32, "blocks": [0, 1]}, {"prompt_tokens": 32, "blocks": [0, 1]})
    assert one.content == two.content


@pytest.mark.parametrize(
    ("lengths", "ratio", "most", "found"),
    [([100] * 10, 1.0, 200, 1.0), ([100] * 10, 0.5, 200, 0.5), ([400] * 10, 1.0, 200, 0.5),
     ([400] * 10, 0.25, 200, 0.25), ([100] * 9 + [9000], 1.0, 100, 1.0), ([], 0.7, 100, 0.7)],
)  # fmt: skip
def test_most_requests_fit(lengths: list[int], ratio: float, most: int, found: float) -> None:
    assert sized(table(*({"prompt_tokens": n} for n in lengths)), ratio, most, 64) == Size(found, most, 64)
