"""Which proposals of ours take the form that a running engine takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid.catalog.knobs.spelling import Engine
from pellucid.tune.propose import Brief, rules
from pellucid.tune.propose.live import as_live
from pellucid.tune.space import Candidate, Setting, Value, candidate
from pellucid.tune.state import State

NEW = Engine("vllm", "0.32.0", {"device": "cpu", "max_num_seqs": 16, "max_num_batched_tokens": 2048})
OLD = replace(NEW, version="0.28.0")


def of(*settings: tuple[str, Value]) -> Candidate:
    return candidate(Setting(*s) for s in settings)


@pytest.mark.parametrize(("settings", "engine", "found"), [
    (of(("step_token_budget", 512)), NEW, of(("scheduled_token_budget", 512))),
    (of(("step_token_budget", 2048)), NEW, of(("scheduled_token_budget", 2048))),
    (of(("step_token_budget", 2049)), NEW, of(("step_token_budget", 2049))),
    (of(("max_running_requests", 8)), NEW, of(("sequence_cap", 8))),
    (of(("max_running_requests", 8)), OLD, of(("max_running_requests", 8))),
    (of(("max_running_requests", 8)), replace(NEW, config={}), of(("max_running_requests", 8))),
    (of(("long_prefill_threshold", 64)), OLD, of(("long_prefill_threshold", 64))),
    (of(("max_running_requests", 8), ("step_token_budget", 512)), NEW,
     of(("sequence_cap", 8), ("scheduled_token_budget", 512))),
    (of(("max_running_requests", 8), ("step_token_budget", 4096)), NEW,
     of(("max_running_requests", 8), ("step_token_budget", 4096))),
    ((), NEW, ()),
])  # fmt: skip
def test_what_does_the_same_downwards_is_proposed_in_a_running_engine(
    settings: Candidate, engine: Engine, found: Candidate
) -> None:
    assert as_live(settings, engine) == found


def test_a_rules_move_downwards_is_live_and_not_proposed_again_in_either_form() -> None:
    finding = {"id": "x.y", "says": "so", "gain": {"metric": "itl_p99_ns", "low_ratio": 0.1, "high_ratio": 0.4},
               "moves": [{"knob": "step_token_budget", "target": 512.0}]}  # fmt: skip
    brief = Brief(NEW, {}, (finding,), State(), frozenset(), 1)
    (one,) = rules.propose(brief).proposals
    assert one.candidate == of(("scheduled_token_budget", 512))
    assert rules.propose(replace(brief, seen=frozenset((one.candidate,)))).proposals == ()
