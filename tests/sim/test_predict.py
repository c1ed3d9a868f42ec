from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.settings import Settings
from pellucid.sim.predict import Twin, predict
from pellucid.sim.step.fit import fit
from tests.sim.step.made import steps

MS = 1_000_000
SETTINGS = Settings(32, 512, 4096, 16, 4096)
TWIN = Twin(fit(steps(2000, noise=0.1)), 2.0 * MS)
ASKS = [Ask(i * 40 * MS, 50 + i % 70, 20 + i % 50) for i in range(300)]


def test_a_heavier_load_and_a_lower_cap_cost_what_they_must() -> None:
    now = predict(ASKS, SETTINGS, TWIN)
    twice = predict([replace(ask, arrival_ns=ask.arrival_ns // 3) for ask in ASKS], SETTINGS, TWIN)
    capped = predict(ASKS, replace(SETTINGS, sequence_cap_count=4), TWIN)
    for name in ("ttft_p95_ns", "tpot_mean_ns"):
        one, other = now.measures[name], twice.measures[name]
        assert one is not None and other is not None
        assert one.low <= one.value <= one.high < other.value
    tpot, slow = capped.measures["tpot_mean_ns"], now.measures["tpot_mean_ns"]
    wait, none = capped.measures["ttft_p95_ns"], now.measures["ttft_p95_ns"]
    assert tpot and slow and wait and none
    assert tpot.value < slow.value
    assert wait.value > 5 * none.value
    assert now.served_count == len(ASKS)


def test_the_same_question_has_the_same_answer() -> None:
    assert predict(ASKS, SETTINGS, TWIN) == predict(ASKS, SETTINGS, TWIN)


def test_nearer_than_a_percent_is_never_claimed() -> None:
    exact = predict(ASKS, SETTINGS, Twin(fit(steps(2000)), 0.0)).measures["tpot_mean_ns"]
    assert exact is not None
    assert exact.high - exact.low == pytest.approx(0.02 * exact.value, rel=0.3)
    assert exact.half_width_ratio >= 0.0099


def test_where_no_step_was_seen_the_interval_is_wide_and_it_is_said() -> None:
    burst = [replace(ask, arrival_ns=0) for ask in ASKS]
    wide = predict(burst, replace(SETTINGS, sequence_cap_count=256), TWIN)
    narrow = predict(ASKS, SETTINGS, TWIN)
    assert sum(narrow.outside.values()) < 0.02
    assert "requests in a step" in wide.outside
    assert sum(wide.outside.values()) > 0.25
    one, other = wide.measures["tpot_mean_ns"], narrow.measures["tpot_mean_ns"]
    assert one and other
    assert one.half_width_ratio > 3 * other.half_width_ratio


def test_refused_requests_are_counted_and_not_predicted() -> None:
    found = predict([*ASKS, Ask(0, 5000, 10)], SETTINGS, TWIN)
    assert len(found.refused) == 1
    assert found.served_count == len(ASKS)


def test_nobody_to_serve_has_no_measure() -> None:
    found = predict([], SETTINGS, TWIN)
    assert set(found.measures.values()) == {None}
    assert found.steps_count == 0
