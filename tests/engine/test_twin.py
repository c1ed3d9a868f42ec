"""The twin's schedule is the engine's own: every token of every request in the same step, on loads drawn at random.

`bench.twin.agreement` asks fifty; here are quick ones with preemptions, shared beginnings, cut prompts and a watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pellucid.collect.vllm.schedule import Schedules
from pellucid.collect.vllm.scheduled import Scheduled
from pellucid.sim.engine.run import Ran
from pellucid.verbs.predict.what_if import Wish, what_if
from tools.real_engine import OLDER, PYTHON
from tools.traffic.loads import both, differing, drawn

pytestmark = pytest.mark.engine
SEEDS = (3, 7, 10, 16, 23)


@dataclass(frozen=True, slots=True)
class Asked:
    schedules: Schedules
    cuts_alone: bool                   # a long prompt also where nobody else is there

    def __call__(self, seed: int) -> tuple[Ran, Scheduled]:
        settings, asks = drawn(seed)
        return both(self.schedules, replace(settings, long_prefill_alone=self.cuts_alone), asks)


@pytest.fixture(scope="module", params=[(PYTHON, False), (OLDER, True)], ids=["0.32", "0.28"])
def engine(request: pytest.FixtureRequest) -> Iterator[Asked]:
    python, cuts_alone = request.param
    with Schedules(str(python)) as schedules:
        yield Asked(schedules, cuts_alone)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_token_comes_in_the_same_step(engine: Asked, seed: int) -> None:
    ran, told = engine(seed)
    assert differing(ran, told) == []
    assert ran.ends_ns.tolist() == told.steps.end_ns.tolist()
    assert ran.kv_used_blocks.tolist() == told.steps.kv_used_blocks_count.tolist()
    assert ran.running.tolist() == told.steps.running_count.tolist()
    assert ran.waiting.tolist() == told.steps.waiting_count.tolist()


def test_the_loads_have_what_makes_it_hard(engine: Asked) -> None:
    found = [engine(seed)[0] for seed in SEEDS[:3]]
    assert sum(ran.preemptions_count for ran in found) > 20
    assert any(s.cached_tokens for ran in found for s in ran.served)
    assert any(s.first_token_step > s.first_step for ran in found for s in ran.served)


@pytest.mark.parametrize("run", ["id-last"])
def test_a_prediction_by_the_engines_own_scheduler_is_the_same(run: str) -> None:
    folder = Path(__file__).parents[1] / "golden" / run
    ours, engines = (what_if(folder, Wish(load_ratio=1.3, python=python)) for python in ("", str(PYTHON)))
    assert engines.candidate.predicted.measures == ours.candidate.predicted.measures
    assert engines.candidate.predicted.kv_used_peak_ratio == ours.candidate.predicted.kv_used_peak_ratio
    assert engines.candidate.predicted.steps_count == ours.candidate.predicted.steps_count > 100
