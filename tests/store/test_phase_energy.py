"""Energy of a token by phase, on steps and samples written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run

# Two boards of 100 W and 300 W in the first second, 200 W each in the next; the counter counts where it is.
GPU = """
    device  time_ns     interval_ns  power_watts  energy_joules
    a       0           1e9          999          1000
    b       0           1e9          300          -
    a       1000000000  1e9          999          1100
    b       1000000000  1e9          300          -
    a       2000000000  1e9          999          1300
    b       2000000000  1e9          200          -"""
STEPS = """
    process  step  start_ns    end_ns      scheduled_tokens  prefill_requests_count  decode_requests_count
    e        1     100000000   600000000   1000              1                       0
    e        2     1000000001  1500000000  50                0                       50
    e        3     1500000000  1600000000  500               1                       50
    e        4     2500000000  2600000000  50                0                       50
    e        5     300000000   400000000   7                 -                       -"""


def test_a_step_costs_the_power_of_all_boards_meanwhile(tmp_path: Path) -> None:
    """The fourth ends behind the last sample, of the fifth no phase is known."""
    run = open_run(build_run(tmp_path, {"gpu": table(GPU), "steps": table(STEPS)}))
    found = {r["phase"]: r for r in run.rows("SELECT * FROM phase_energy")}
    assert {p: (r["steps_count"], r["tokens"]) for p, r in found.items()} == {
        "prefill": (1, 1000), "decode": (1, 50), "mixed": (1, 500)}  # fmt: skip
    assert found["prefill"]["energy_joules"] == pytest.approx(0.5 * 400)
    assert found["prefill"]["token_joules"] == pytest.approx(0.2)
    assert found["decode"]["energy_joules"] == pytest.approx(0.5 * 400, rel=1e-6)
    assert found["decode"]["token_joules"] == pytest.approx(4.0, rel=1e-6)


def test_without_a_board_nothing_is_said(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path, {"steps": table(STEPS)}))
    assert run.rows("SELECT * FROM phase_energy") == []
    assert run.rows("SELECT * FROM kernel_phases") == []
