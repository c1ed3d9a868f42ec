from __future__ import annotations

from pellucid.catalog.knobs.spelling import Engine
from pellucid.tune.events import Claim
from pellucid.tune.propose import Brief
from pellucid.tune.propose.twin import MOST, Promise, propose
from pellucid.tune.space import Candidate, Setting
from pellucid.tune.state import State


def brief(*seen: Candidate) -> Brief:
    return Brief(Engine("vllm", "0.32.0", {}), {}, (), State(), frozenset(seen), 1)


def promise(cap: int, better: bool = True) -> Promise:
    claim = Claim("output_tokens_per_s", 0.05, 0.2)
    chosen = (Setting("max_running_requests", cap),)
    return Promise(chosen, claim, better, f"the twin expects much of {cap}", "queueing")


def test_what_is_better_is_proposed_with_its_claim() -> None:
    answer = propose([promise(32)], brief())
    (proposal,) = answer.proposals
    assert proposal.candidate == promise(32).candidate
    assert (proposal.proposer, proposal.claim) == ("twin", Claim("output_tokens_per_s", 0.05, 0.2))
    assert proposal.source == "twin.max_running_requests.queueing"
    assert proposal.why == "the twin expects much of 32"
    assert answer.done


def test_what_may_be_nothing_what_was_seen_and_what_changes_nothing_is_not() -> None:
    nothing = Promise((), None, True, "", "queueing")
    assert propose([promise(8, better=False), promise(32), nothing], brief(promise(32).candidate)).proposals == ()


def test_only_the_first_few() -> None:
    assert len(propose([promise(n) for n in range(1, 10)], brief()).proposals) == MOST
