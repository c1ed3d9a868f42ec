from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.run import run
from pellucid.sim.engine.settings import Settings
from pellucid.sim.outcome import MEASURES, measures, of_ran, of_run
from pellucid.store.read import open_run

MS = 1_000_000
GOLDEN = Path(__file__).parents[1] / "golden"
PLAIN = Settings(sequence_cap_count=4, token_budget_tokens=32, kv_blocks_count=64, block_tokens=4, context_tokens=128)


def test_measures_of_a_schedule_that_can_be_worked_out() -> None:
    asks = [Ask(0, 4, 5), Ask(2 * MS, 4, 1)]
    ran = run(asks, PLAIN, lambda _: 10 * MS)
    found = measures(of_ran(ran, asks, delay_ns=MS))
    # First tokens after 10 and 20 ms; the one came at 0 and the other at 2 ms, each a ms earlier at the frontend.
    assert found["ttft_p50_ns"] == pytest.approx((11 + 19) / 2 * MS)
    assert found["tpot_mean_ns"] == 10 * MS          # an answer of one token has none
    assert found["itl_p95_ns"] == 10 * MS
    assert found["e2e_p95_ns"] == pytest.approx(19 * MS + 0.95 * (51 - 19) * MS)
    assert found["output_tokens_per_s"] == pytest.approx(6 / 0.051)


def test_nobody_served_is_no_measure() -> None:
    assert measures(of_ran(run([], PLAIN, lambda _: MS), [])) == dict.fromkeys(MEASURES)


def test_one_token_answers_have_no_gaps() -> None:
    asks = [Ask(0, 4, 1)]
    found = measures(of_ran(run(asks, PLAIN, lambda _: MS), asks))
    assert found["tpot_mean_ns"] is None and found["itl_p95_ns"] is None
    assert found["ttft_p50_ns"] == MS


def test_a_recording_is_measured_from_its_requests_and_steps() -> None:
    run_ = open_run(GOLDEN / "healthy")
    timed = of_run(run_)
    found = measures(timed)
    row = run_.one("SELECT count(*) AS n, median(first_token_ns - arrival_ns) AS ttft, sum(output_tokens) AS tokens, "
                   "sum(output_tokens - 1) AS gaps FROM requests")  # fmt: skip
    assert len(timed) == row["n"]
    assert found["ttft_p50_ns"] == pytest.approx(row["ttft"])
    assert timed.tokens.sum() == row["tokens"]
    assert sum(len(gaps) for gaps in timed.gaps_ns) == row["gaps"]
    assert all(len(g) == n - 1 for g, n in zip(timed.gaps_ns, timed.tokens, strict=True))
