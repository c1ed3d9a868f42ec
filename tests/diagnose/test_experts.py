"""What the two rules of experts claim and advise; their limits are in test_limits.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.test_limits import judged


@pytest.mark.parametrize(("rule", "change"), [
    ("moe.rank_imbalance", {"busiest_tokens": 2000}), ("moe.expert_skew", {"busiest_tokens": 1600}),
])  # fmt: skip
def test_even_ranks_gain_a_tenth_of_what_the_busiest_has_too_much(rule: str, change: dict[str, Any]) -> None:
    gain = judged(rule, **change).gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (0.0, 0.1)


def test_experts_and_their_copies_are_a_multiple_of_the_ranks() -> None:
    assert judged("moe.expert_skew").targets == {"expert_balancing": 1, "expert_copies": 8}
    assert judged("moe.expert_skew", experts_count=60).targets["expert_copies"] == 4
