from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.schedule import Chunk, Planned
from pellucid.sim.step.fit import LEAST_STEPS, fit
from pellucid.sim.step.seen import Steps
from tests.sim.step.made import relative, steps


def decode(count: int, context: int) -> Planned:
    return Planned((), count, context, count, 0, 0, 1)


def test_known_weights_are_found_again() -> None:
    model = fit(steps(2000))
    fresh = steps(500, seed=9)
    assert relative(model.of_seen(fresh), fresh.took_ns) < 0.02


def test_a_planned_step_takes_what_the_same_recorded_step_did() -> None:
    model = fit(steps(2000))
    one = steps(1, seed=3)
    chunk = Chunk(int(one.chunk_tokens[0]), int(one.chunk_context_tokens[0]), True)
    planned = Planned((chunk,), int(one.decodes_count[0]), int(one.decode_context_tokens[0]), 1, 0, 0, 1)
    assert model.usual_ns(planned) == pytest.approx(float(model.of_seen(one)[0]), rel=1e-6)
    assert model.usual_ns(decode(10, 4000)) == pytest.approx(5e6 + 1e6 + 2e5 + 4e5, rel=0.01)


def test_no_batch_is_faster_for_having_more_in_it() -> None:
    model = fit(steps(800, noise=0.2))
    times = [model.usual_ns(decode(n, 300 * n)) for n in range(1, 60)]
    assert times == sorted(times)
    assert (model.weights.plain >= 0).all() and (model.weights.mixed >= 0).all()


def test_the_total_is_as_measured_although_some_steps_are_far_off() -> None:
    made = steps(2000, noise=0.05)
    took = made.took_ns.copy()
    took[::50] *= 6                                      # a pause of everything, now and then
    model = fit(replace(made, took_ns=took))
    assert float(model.expected_ns(made).sum()) == pytest.approx(float(took.sum()), rel=0.05)
    assert float(model.of_seen(made).sum()) < 0.95 * float(took.sum())      # usual steps are not long for it
    quiet = np.ones(len(made), dtype=bool)
    quiet[::50] = False
    shape = model.of_seen(made.where(quiet)) / made.where(quiet).took_ns
    assert float(shape.std()) < 0.07                     # the shape is that of the others


@pytest.mark.slow
def test_the_interval_holds_for_stretches_that_come_later() -> None:
    held = 0
    for seed in range(40):
        model = fit(steps(1200, seed=seed, noise=0.3))
        later = steps(60, seed=1000 + seed, noise=0.3)
        off = model.off(0.9, 60)
        held += off.low <= later.took_ns.sum() / model.expected_ns(later).sum() <= off.high
    assert held >= 32                                    # nine of ten, less what chance takes from forty


def test_few_stretches_reach_less() -> None:
    model = fit(steps(220))
    off = model.off(0.99, 11)
    assert off.level < 0.99
    assert off.low < 1 < off.high


def test_too_few_steps_are_refused_with_what_to_do() -> None:
    with pytest.raises(CannotAnswer, match=f"{LEAST_STEPS}. Try: record for longer"):
        fit(steps(LEAST_STEPS - 1))


def test_what_a_step_takes_more_after_a_pause_is_told_apart() -> None:
    made = steps(600)
    alone = np.zeros(600)
    alone[::20] = 1
    late = fit(replace(made, alone=alone, took_ns=made.took_ns + alone * 3e6))
    assert late.alone_ns == pytest.approx(3e6, rel=0.05)
    assert late.usual_ns(decode(10, 4000)) == pytest.approx(fit(made).usual_ns(decode(10, 4000)), rel=0.01)


def test_what_lies_beyond_the_recording_is_named() -> None:
    model = fit(steps(600))
    assert model.outside(decode(10, 3000)) == ""
    assert model.outside(decode(200, 3000)) == "requests in a step"
    assert model.outside(decode(10, 10**6)) == "positions that decodes see"


def test_draws_scatter_as_the_steps_did_and_are_the_same_for_a_seed() -> None:
    model = fit(steps(3000, noise=0.2))
    drawn = model.drawn(seed=4)
    values = np.array([drawn(decode(10, 4000)) for _ in range(4000)])
    assert float(values.mean()) == pytest.approx(5e6 + 1e6 + 2e5 + 4e5, rel=0.03)
    assert float(values.std() / values.mean()) == pytest.approx(0.2, rel=0.15)
    again = model.drawn(seed=4)
    assert [again(decode(10, 4000)) for _ in range(5)] == values[:5].tolist()
    twice = model.drawn(seed=4, times=2.0)
    assert twice(decode(10, 4000)) == pytest.approx(2 * values[0])


def test_columns_of_a_run_can_be_cut() -> None:
    made = steps(10)
    half = made.where(np.arange(10) < 5)
    assert isinstance(half, Steps)
    assert len(half) == 5
