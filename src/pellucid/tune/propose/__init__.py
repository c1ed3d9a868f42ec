"""Proposers: rules' moves, a list in a file, any outside program. Each turns what is known into proposals, and no more.

    propose(brief) → Answer((Proposal(…), …), done=False, trouble=())

A proposer never sees the guard, never measures, and keeps nothing: its claims are compared with outcomes afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.catalog.knobs.spelling import Engine
from pellucid.tune.events import Proposal
from pellucid.tune.space import Candidate
from pellucid.tune.state import State

MOST_PROPOSALS = 16      # chosen: in one answer; more than fit into any budget, few enough to read in the audit log


@dataclass(frozen=True, slots=True)
class Brief:
    """What every proposer is given."""

    engine: Engine
    observed: dict[str, Any]       # `why --json` of the present configuration: load, units, verdict
    findings: tuple[dict[str, Any], ...]
    state: State
    seen: frozenset[Candidate]     # tried or refused
    left_ns: int


@dataclass(frozen=True, slots=True)
class Answer:
    proposals: tuple[Proposal, ...]
    done: bool                     # there will be no more
    trouble: tuple[str, ...] = ()


def together(answers: tuple[Answer, ...], seen: frozenset[Candidate]) -> Answer:
    """Of all proposers, in their order. What is in `seen`, and what two of them propose, once; the present
    configuration against itself as often as it comes."""
    fresh: list[Proposal] = []
    known = set(seen)
    for proposal in (p for answer in answers for p in answer.proposals):
        if not proposal.candidate or proposal.candidate not in known:
            known.add(proposal.candidate)
            fresh.append(proposal)
    trouble = tuple(t for answer in answers for t in answer.trouble)
    return Answer(tuple(fresh), all(a.done for a in answers), trouble)
