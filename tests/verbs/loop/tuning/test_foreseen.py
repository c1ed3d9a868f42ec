"""What a twin of real recordings holds to be worth a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.tune.propose.twin import Promise
from pellucid.tune.slo import read_slo
from pellucid.verbs.loop.tuning.foreseen import foreseen

GOLDEN = Path(__file__).parents[3] / "golden"


def of(run: str, slo: str, goal: str) -> tuple[tuple[Promise, ...], str]:
    said: list[str] = []
    found = foreseen(GOLDEN / run, read_slo(slo) if slo else (), goal, said.append)
    return found, " ".join(said)


def test_a_cap_that_binds_is_lifted_and_the_trials_saved_are_told() -> None:
    found, said = of("sequence-cap", "ttft_p95<2s,itl_p95<150ms", "goodput_per_s")
    (knobs, claim) = ([s.knob for s in found[0].candidate], found[0].claim)
    assert knobs == ["max_running_requests"] and found[0].better
    assert claim is not None and claim.metric == "ttft_mean_ns" and 0.5 < claim.low_ratio < claim.high_ratio < 1
    assert "settings on virtual time" in said and "instead of as many trials" in said


@pytest.mark.slow
def test_a_budget_that_binds_is_raised() -> None:
    found, _ = of("token-budget", "ttft_p95<1s", "goodput_per_s")
    assert [s.knob for s in found[0].candidate] == ["step_token_budget"]


@pytest.mark.slow
def test_on_a_healthy_engine_nothing_is_worth_a_trial() -> None:
    found, said = of("healthy", "", "output_tokens_per_s")
    assert [p for p in found if p.better] == []
    assert "holds none to be better" in said


def test_a_run_that_is_too_short_has_no_twin_and_says_why() -> None:
    found, said = of("kv-fits", "", "output_tokens_per_s")
    assert found == ()
    assert said.startswith("no twin: ") and "Try: record for longer" in said
