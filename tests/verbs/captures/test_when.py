"""Conditions for captures, and what they may cost."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.verbs.captures.when import GUESS_NS, Budget, Condition, condition

S = 1_000_000_000


@pytest.mark.parametrize(("text", "wanted"), [
    ("itl_p99 > 3x baseline", Condition("itl_p99_ns", ">", times=3.0)),
    ("itl_p99_ns >= 1.5x baseline", Condition("itl_p99_ns", ">=", times=1.5)),
    ("ttft_p95>2s", Condition("ttft_p95_ns", ">", value=2e9)),
    ("  itl_p50 < 34ms ", Condition("itl_p50_ns", "<", value=34e6)),
    ("draft_time > 20%", Condition("draft_time_ratio", ">", value=0.2)),
    ("finding", None),
])  # fmt: skip
def test_a_condition_is_read(text: str, wanted: Condition | None) -> None:
    assert condition(text) == wanted


@pytest.mark.parametrize("text", [
    "", "itl_p99", "itl_p99 >", "> 3x baseline", "itl_p99 == 3", "itl_p99 > 3y baseline", "nothing_such > 3",
    "itl_p99 > fast", "itl_p99 > 3x base", "itl_p99 > 3x baseline and more", "findings", "itl_p99 > nanx baseline",
    "itl_p50 > infx baseline", "draft_time > nan%",
])  # fmt: skip
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(AskedWrongly, match="--when"):
        condition(text)


@pytest.mark.parametrize(("value", "baseline", "met"), [
    (31.0, 10.0, True), (30.0, 10.0, False), (None, 10.0, False), (31.0, None, False),
])  # fmt: skip
def test_what_is_not_there_meets_nothing(value: float | None, baseline: float | None, met: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"metric": "other", "value": 99.0, "baseline": 1.0},
        {"metric": "itl_p99_ns", "value": value, "baseline": baseline},
    ]
    assert Condition("itl_p99_ns", ">", times=3.0).met(rows) is met
    assert Condition("itl_p99_ns", ">", value=30.0).met(rows) is (value == 31.0)


def test_captures_stay_within_a_hundredth_of_the_time() -> None:
    budget = Budget(began_ns=0)
    assert not budget.allows(100 * GUESS_NS - 1)
    assert budget.allows(100 * GUESS_NS)
    budget.pay(2 * S)
    assert not budget.allows(399 * S)
    assert budget.allows(400 * S)
    budget.pay(S)
    assert not budget.allows(499 * S)
    assert budget.allows(500 * S)
