"""Does a candidate answer as the reference would? Two addresses and prompts → a verdict.

    fidelity(Engines("http://127.0.0.1:8001", "http://127.0.0.1:8000"), neutral(200), Plan(budget_ns=300 * S_NS))
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pellucid.collect.client.scoring import client
from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.units import S_NS
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE
from pellucid.tune.fidelity.judge import Evidence, judge
from pellucid.tune.fidelity.verdict import Fidelity, Terms
from pellucid.verbs.loop.judging.gather import WAKING_S, Arm, Plan, gather
from pellucid.workload.neutral import Prompt

__all__ = ["Engines", "Fidelity", "Plan", "Terms", "fidelity", "gathered"]


@dataclass(frozen=True, slots=True)
class Engines:
    candidate: str
    reference: str
    headers: Mapping[str, str] = field(default_factory=dict)      # sent to both


def fidelity(
    engines: Engines, prompts: Sequence[Prompt], plan: Plan, terms: Terms | None = None, clock: Clock = monotonic_ns
) -> Fidelity:
    """Takes up to the plan's budget. Raises AskedWrongly on what is no address; all else is in the verdict."""
    found = gathered(engines, prompts, plan, clock)
    said = judge(found, np.random.default_rng(plan.seed), terms)
    if prompts and all(not isinstance(p.content, str) for p in prompts):
        return replace(said, notes=(*said.notes, IDS_ONLY))
    return said


IDS_ONLY = ("prompts were token ids: where these were drawn at random no model is sure of anything behind them, and "
            "less is found than with text. Try: --prompts FILE")  # fmt: skip


def gathered(engines: Engines, prompts: Sequence[Prompt], plan: Plan, clock: Clock = monotonic_ns) -> Evidence:
    """What a verdict rests on, for judging it again."""
    return asyncio.run(_gathered(engines, prompts, plan, clock))


async def _gathered(engines: Engines, prompts: Sequence[Prompt], plan: Plan, clock: Clock) -> Evidence:
    async with (
        client(engines.reference, plan.budget_ns / S_NS, engines.headers) as reference,
        client(engines.candidate, min(WAKING_S, plan.budget_ns / S_NS), engines.headers) as candidate,
    ):
        return await gather(Arm(REFERENCE, reference), Arm(CANDIDATE, candidate), prompts, plan, clock)
