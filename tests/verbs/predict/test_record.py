from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from pellucid.tune.events import Claim
from pellucid.verbs.predict.record import of_twin
from tests.tune.session import World, proposal
from tests.verbs.loop.test_sessions import A, whole_session

SOURCE = "twin.step_token_budget.queueing"


def test_claims_of_twins_stand_beside_their_outcomes_and_others_are_left_out(tmp_path: Path) -> None:
    claim = Claim("output_tokens_per_s", 0.3, 0.5)
    claimed = structs.replace(proposal(("step_token_budget", 512), source=SOURCE, claim=claim), proposer="twin")
    whole_session(tmp_path, World((A, claimed)))
    found = of_twin(tmp_path)
    assert [row["proposer"] for row in found.rows] == ["twin"]
    (score,) = found.claims
    assert (score["source"], score["trials_count"], score["covered_count"]) == (SOURCE, 1, 1)
    assert score["mean_error_ratio"] == pytest.approx(0.2)      # 0.3 to 0.5 was claimed, 0.2 came of it


def test_nothing_was_claimed_yet(tmp_path: Path) -> None:
    assert of_twin(tmp_path).claims == []
