from __future__ import annotations

import pytest

from pellucid.tune import events as e
from pellucid.tune.claims import Score, compared, improvement, scores
from pellucid.tune.state import Trial
from tests.tune.session import proposal, start

UP, DOWN = "output_tokens_per_s", "itl_mean_ns"


def trial(
    claim: tuple[str, float, float] | None, *measures: e.Measure, judged: bool = True, source: str = "a.b"
) -> Trial:
    of = proposal(("max_running_requests", 64), source=source, claim=e.Claim(*claim) if claim else None)
    speed = e.SpeedJudged(1, "better", measures, (), 9, 1) if judged else None
    return Trial(1, of, start(1), speed, end="rolled back")


def measure(metric: str, low: float | None, middle: float | None, high: float | None) -> e.Measure:
    return e.Measure(metric, middle, low, high)


def test_a_ratio_is_an_improvement_in_the_metrics_own_direction() -> None:
    assert improvement(UP, 1.25) == pytest.approx(0.25)
    assert improvement(DOWN, 0.75) == pytest.approx(0.25)


def test_a_claim_stands_beside_its_outcome() -> None:
    row = compared(trial((UP, 0.1, 0.3), measure(UP, 1.05, 1.12, 1.19)))
    assert row is not None
    assert (row.outcome_low_ratio, row.outcome_ratio, row.outcome_high_ratio) == pytest.approx((0.05, 0.12, 0.19))
    assert (row.covered, row.source, row.reason) == (True, "a.b", "")


def test_where_less_is_better_the_bounds_change_places() -> None:
    """TPOT of the judge is the ITL mean of the definitions."""
    row = compared(trial((DOWN, 0.5, 0.6), measure("tpot_mean_ns", 0.8, 0.85, 0.9)))
    assert row is not None
    assert (row.outcome_low_ratio, row.outcome_ratio, row.outcome_high_ratio) == pytest.approx((0.1, 0.15, 0.2))
    assert row.covered is False


@pytest.mark.parametrize(("low", "high", "covered"), [
    (1.5, 1.6, True), (1.501, 1.6, False), (0.9, 1.1, True), (0.9, 1.099, False), (1.2, 1.3, True)])  # fmt: skip
def test_a_claim_is_covered_where_its_range_meets_the_interval(low: float, high: float, covered: bool) -> None:
    row = compared(trial((UP, 0.1, 0.5), measure(UP, low, (low + high) / 2, high)))
    assert row is not None and row.covered is covered


@pytest.mark.parametrize(("made", "reason"), [
    (trial((UP, 0.1, 0.3), judged=False), "the trial came to no verdict"),
    (trial(("ttft_mean_ns", 0.1, 0.3), measure(UP, 1, 1, 1)), "ttft_mean_ns was not measured in the trial"),
    (trial((UP, 0.1, 0.3), measure(UP, None, 1.1, 1.2)), "output_tokens_per_s came to no interval"),
])  # fmt: skip
def test_without_an_outcome_there_is_a_reason_and_no_judgement(made: Trial, reason: str) -> None:
    row = compared(made)
    assert row is not None and (row.covered, row.outcome_ratio, row.reason) == (None, None, reason)


def test_a_trial_without_a_claim_is_no_row() -> None:
    assert compared(trial(None, measure(UP, 1, 1, 1))) is None


def test_each_rule_is_held_to_its_claims() -> None:
    made = [
        trial((UP, 0.1, 0.3), measure(UP, 1.0, 1.1, 1.2)), trial((UP, 0.1, 0.3), measure(UP, 0.8, 0.9, 1.0)),
        trial((UP, 0.1, 0.3), judged=False), trial((UP, 0.0, 0.2), measure(UP, 1.0, 1.1, 1.2), source="c.d"),
        trial(None), trial((UP, 0.0, 0.2), judged=False, source="e.f"),
    ]  # fmt: skip
    found = scores(made)
    assert [(f.source, f.trials_count, f.covered_count, f.unmeasured_count) for f in found] == [
        ("a.b", 2, 1, 1), ("c.d", 1, 1, 0), ("e.f", 0, 0, 1)]  # fmt: skip
    assert [f.mean_error_ratio for f in found[:2]] == pytest.approx([0.2, 0.0])
    assert found[2] == Score("e.f", 0, 0, None, 1)
