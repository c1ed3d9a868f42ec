"""Answers of two engines that serve, judged: prompts of our own, as many as the time allows."""

from __future__ import annotations

from pellucid.collect.client.play import Target
from pellucid.verbs.loop.fidelity import Engines, Fidelity, Plan, fidelity
from pellucid.workload.neutral import neutral

PROMPTS_MOST = 1000       # more than any engine answers in the time


def judge_answers(candidate: Target, present: Target, budget_ns: int, seed: int) -> Fidelity:
    engines = Engines(candidate.url, present.url, present.headers)
    return fidelity(engines, neutral(PROMPTS_MOST, seed), Plan(budget_ns, seed=seed))
