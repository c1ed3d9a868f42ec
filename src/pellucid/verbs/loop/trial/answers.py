"""Answers of two engines that serve, judged: behind the workload's requests, as many as the time allows."""

from __future__ import annotations

from pellucid.collect.client.play import Target
from pellucid.verbs.loop.fidelity import Engines, Fidelity, Plan, fidelity
from pellucid.verbs.loop.judging.prompted import of_workload
from pellucid.verbs.loop.trial.lab import Lab


def judge_answers(candidate: Target, present: Target, lab: Lab, budget_ns: int) -> Fidelity:
    engines, traffic = Engines(candidate.url, present.url, present.headers), lab.wish.traffic
    plan = Plan(budget_ns, seed=traffic.seed)
    chosen = of_workload(lab.workload, traffic.tokens_ratio, (present.url, present.headers), plan)
    return fidelity(engines, chosen, plan)
