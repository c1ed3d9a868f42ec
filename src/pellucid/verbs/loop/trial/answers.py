"""Answers of a trial's two arms, judged: behind the workload's requests, as many as the time allows."""

from __future__ import annotations

from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE
from pellucid.verbs.loop.fidelity import Engines, Fidelity, Plan, fidelity
from pellucid.verbs.loop.judging.gather import Turn
from pellucid.verbs.loop.judging.prompted import of_workload
from pellucid.verbs.loop.trial.arms.booted import Arm
from pellucid.verbs.loop.trial.arms.shared import Shared
from pellucid.verbs.loop.trial.lab import Lab


def judge_answers(candidate: Arm, present: Arm, lab: Lab, budget_ns: int) -> Fidelity:
    """Raises Failed where an engine that is both does not take the settings back."""
    at, traffic = present.target, lab.wish.traffic
    arms = {REFERENCE: present, CANDIDATE: candidate}
    turns = {name: Turn(arm.use, arm.still) for name, arm in arms.items() if isinstance(arm, Shared)}
    plan = Plan(budget_ns, seed=traffic.seed)
    present.use()
    chosen = of_workload(lab.workload, traffic.tokens_ratio, (at.url, at.headers), plan)
    return fidelity(Engines(candidate.target.url, at.url, at.headers, turns), chosen, plan)
