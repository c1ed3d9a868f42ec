"""Energy from counters and steps that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pellucid.sim.step.energy import Drawn, all_drawn, drawn, fit_energy, token_joules
from pellucid.store.read import open_run
from tests.diagnose.engine_model import write_run

S = 1_000_000_000


def made(folder: Path, seconds: int = 20, boards: int = 1, every: int = 1) -> Path:
    """100 W at rest, 300 W in steps, 10 mJ a token; the n-th second has a step of (n mod 5) / 5 s with 10 n tokens."""
    joules, gpu, steps = 0.0, [], []
    for n in range(seconds + 1):
        gpu += [{"device": f"{b} H200", "time_ns": n * S, "energy_joules": joules / boards} for b in range(boards)
                if n % every == 0]  # fmt: skip
        took, tokens = n % 5 * S // 5, 10 * n if n % 5 else 0
        if took:
            steps.append({"process": "core-1", "step": n, "start_ns": n * S, "end_ns": n * S + took,
                          "scheduled_tokens": tokens})  # fmt: skip
        joules += 100 + 200 * took / S + 0.01 * tokens
    requests = [{"process": "core-1", "request": 1, "arrival_ns": S, "last_token_ns": 9 * S, "finish_ns": 9 * S,
                 "output_tokens": 100}]  # fmt: skip
    return write_run(folder, {"gpu": gpu, "steps": steps, "requests": requests})


@pytest.mark.parametrize("boards", [1, 2])
def test_the_weights_are_found_whatever_the_number_of_boards(tmp_path: Path, boards: int) -> None:
    energy = fit_energy(drawn(open_run(made(tmp_path, boards=boards))))
    assert energy is not None
    assert (energy.idle_watts, energy.work_watts, energy.token_joules) == pytest.approx((100, 200, 0.01), rel=1e-6)
    assert (energy.low, energy.high) == pytest.approx((1, 1))
    assert energy.joules(10.0, 4.0, 1000.0) == pytest.approx(1000 + 800 + 10)


def test_a_tokens_joules_are_from_the_first_arrival_to_the_last_token(tmp_path: Path) -> None:
    seen = open_run(made(tmp_path))
    spent = sum(100 + 200 * (n % 5) / 5 + (0.1 * n if n % 5 else 0) for n in range(1, 9))
    assert token_joules(seen) == pytest.approx(spent / 100)


def test_counters_that_do_not_span_the_requests_tell_nothing(tmp_path: Path) -> None:
    assert token_joules(open_run(made(tmp_path / "short", seconds=5))) is None
    assert token_joules(open_run(made(tmp_path / "rare", every=4))) is None
    assert token_joules(open_run(made(tmp_path / "often", every=3))) is not None


def test_a_run_without_a_board_has_no_energy(tmp_path: Path) -> None:
    folder = write_run(tmp_path, {"steps": [{"process": "core-1", "step": 1, "start_ns": 0, "end_ns": S}]})
    assert fit_energy(drawn(open_run(folder))) is None and token_joules(open_run(folder)) is None


def test_few_samples_are_no_fit_and_noise_is_in_the_interval() -> None:
    pick = np.random.default_rng(0)
    busy, tokens = pick.uniform(0, 1, 40), pick.uniform(0, 5000, 40)
    joules = (100 + 300 * busy + 0.01 * tokens) * pick.normal(1, 0.1, 40)
    seen = Drawn(np.ones(40), busy, tokens, joules)
    energy = fit_energy(seen)
    assert energy is not None and 0.75 < energy.low < 0.93 and 1.07 < energy.high < 1.25
    assert fit_energy(Drawn(*(a[:7] for a in (seen.span_s, busy, tokens, joules)))) is None
    assert len(all_drawn([seen, seen]).joules) == 80
