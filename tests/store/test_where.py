"""The filter grammar: what it reads, and what it refuses instead of guessing."""

from __future__ import annotations

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.store.where import where

TYPES = {"arrival_ns": "BIGINT", "ttft_ns": "BIGINT", "output_tokens": "BIGINT",
         "finish_reason": "VARCHAR", "request_id": "VARCHAR"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sql", "params"),
    [
        ("output_tokens > 5", "output_tokens > $w0", {"w0": 5}),
        ("output_tokens>=5", "output_tokens >= $w0", {"w0": 5}),
        ("ttft_ns > 1.5s", "ttft_ns > $w0", {"w0": 1_500_000_000}),
        ("ttft_ns < 34ms", "ttft_ns < $w0", {"w0": 34_000_000}),
        ("finish_reason = 'stop'", "finish_reason = $w0", {"w0": "stop"}),
        ("finish_reason != 12", "finish_reason != $w0", {"w0": "12"}),
        ("request_id ~ cmpl-9", "contains(request_id, $w0)", {"w0": "cmpl-9"}),
        ("ttft_ns is missing", "ttft_ns IS NULL", {}),
        ("ttft_ns is seen", "ttft_ns IS NOT NULL", {}),
        ("output_tokens = 1 and ttft_ns = 2", "output_tokens = $w0 AND ttft_ns = $w1", {"w0": 1, "w1": 2}),
        ("finish_reason = 'and' AND output_tokens = 1", "finish_reason = $w0 AND output_tokens = $w1", {"w0": "and", "w1": 1}),  # noqa: E501
    ],
)
def test_a_condition_becomes_sql_with_parameters(text: str, sql: str, params: dict[str, object]) -> None:
    assert where(text, TYPES) == (sql, params)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("output_tokens", "middle of a condition"),
        ("output_tokens > ", "middle of a condition"),
        ("output_tokens > 5 or ttft_ns > 1", "saw 'or'"),
        ("output_tokens > 5 and", "saw 'and'"),
        ("output_tokens > 1; DROP TABLE steps", "saw"),
        ("1 = 1", "no column '1'"),
        ("ttft_ns = many", "holds numbers"),
        ("ttft_ns = '5'", "holds numbers"),
        ("ttft_ns < nan", "holds numbers"),
        ("ttft_ns > inf", "holds numbers"),
        ("ttft_ns != -inf", "holds numbers"),
        ("output_tokens < 9223372036854775808", "holds numbers"),
        ("output_tokens ~ 5", "is for text"),
        ("request_id > 5", "holds text, which has no order for '>'"),
        ("finish_reason <= stop", "holds text"),
        ("arrival_ns > 2s", "is a moment, '2s' a span of time"),
        ("output_tokens = 5ms", "holds numbers"),
        ("ttft_ns is null", "takes missing or seen"),
        ("ttft_ns like 5", "saw 'like'"),
        ("(output_tokens) > 5", "no column"),
        ("finish_reason = 'stop", "cannot read"),
    ],
)
def test_what_is_outside_the_grammar_is_refused(text: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        where(text, TYPES, ("arrival_ns",))


def test_a_moment_is_compared_with_a_moment() -> None:
    assert where("arrival_ns > 2000", TYPES, ("arrival_ns",)) == ("arrival_ns > $w0", {"w0": 2000})


def test_an_unknown_column_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(AskedWrongly, match="nearest: output_tokens"):
        where("output_token > 5", TYPES)
