from __future__ import annotations

import pytest

from pellucid.tune.effect.spend import SESSION_ERROR, Spend


def test_all_candidates_together_stay_within_the_error_of_the_session() -> None:
    spent = sum(Spend(number).level for number in range(1, 10_000))
    assert 0.999 * SESSION_ERROR < spent < SESSION_ERROR


def test_the_first_candidate_gets_the_most() -> None:
    assert Spend(1).level == pytest.approx(0.00608, rel=1e-3)
    assert Spend(2).level == Spend(1).level / 4
