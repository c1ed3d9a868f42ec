"""Does a candidate answer as the reference would? Two addresses and prompts → a verdict.

    fidelity(Engines("http://127.0.0.1:8001", "http://127.0.0.1:8000"), own(200, seed=0), Plan(budget_ns=300 * S_NS))
        .word      same · different · inconclusive · blind · failed

Both have to serve /v1/completions with token ids and prompt log-probabilities. The candidate answers exactly as it is
configured, with many requests at once; what it said is shown to the reference. `Fidelity.json()` is the answer's shape:

    {"word": "same", "reason": "…", "tasks": [{"task": "all", "word": "same", "prompts_count": 40,
     "smallest_found_ratio": 0.03, "differences": [{"name": "surprise", "difference": 0.004, "low": -0.03, "high": 0.04,
     "p_adjusted": 0.9, "floor_difference": -0.01, …}, …]}, …], "forced": {"kl_nats": 0.0, "agreeing_ratio": 1.0, …},
     "notes": [], "took_ns": 290000000000, "terms": {"level_ratio": 0.01, "margin_nats": 0.05, …}}
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pellucid.collect.client.scoring import client
from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.units import S_NS
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE
from pellucid.tune.fidelity.judge import Evidence, judge
from pellucid.tune.fidelity.verdict import Fidelity, Terms
from pellucid.verbs.loop.judging.gather import WAKING_S, Arm, Plan, Turn, gather
from pellucid.verbs.loop.judging.prompted import Chosen

__all__ = ["Chosen", "Engines", "Fidelity", "Plan", "Terms", "fidelity"]


@dataclass(frozen=True, slots=True)
class Engines:
    candidate: str
    reference: str
    headers: Mapping[str, str] = field(default_factory=dict)      # sent to both
    turns: Mapping[str, Turn] = field(default_factory=dict)       # by arm, where one engine is both


def fidelity(
    engines: Engines, chosen: Chosen, plan: Plan, terms: Terms | None = None, clock: Clock = monotonic_ns
) -> Fidelity:
    """Takes up to the plan's budget, with what choosing the prompts took. Raises AskedWrongly on what is no address;
    all else is in the verdict."""
    found = asyncio.run(_gathered(engines, chosen, replace(plan, budget_ns=plan.budget_ns - chosen.took_ns), clock))
    said = judge(found, np.random.default_rng(plan.seed), terms)
    notes = (*said.notes, *chosen.notes, *((ONE_ENGINE,) if engines.turns else ()))
    return replace(said, prompts=chosen.says, notes=notes, took_ns=said.took_ns + chosen.took_ns)


ONE_ENGINE = ("one engine was both arms, set anew for each: of weights and formats nothing is said by this; prefixes "
              "were cached for each arm apart")  # fmt: skip


async def _gathered(engines: Engines, chosen: Chosen, plan: Plan, clock: Clock) -> Evidence:
    async with (
        client(engines.reference, max(1.0, plan.budget_ns / S_NS), engines.headers) as reference,
        client(engines.candidate, min(WAKING_S, max(1.0, plan.budget_ns / S_NS)), engines.headers) as candidate,
    ):
        arms = Arm(REFERENCE, reference, engines.turns.get(REFERENCE)), Arm(
            CANDIDATE, candidate, engines.turns.get(CANDIDATE))  # fmt: skip
        return await gather(*arms, chosen.prompts, plan, clock)
