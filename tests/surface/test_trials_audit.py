"""`pellucid trials` and `pellucid audit` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surface.test_cli import pellucid
from tests.tune.session import World
from tests.verbs.loop.test_sessions import SESSION, A, B, journal_of, whole_session

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    whole_session(tmp_path, World((A, B), fidelity="different"))
    return tmp_path


def test_trials_are_listed_with_their_verdicts(home: Path) -> None:
    done = pellucid(home, "trials")
    assert (done.returncode, done.stderr) == (0, "")
    assert "max_running_requests=64  rolled back  better  different  output_tokens_per_s" in done.stdout
    assert "fidelity: different, 512 prompts" in done.stdout


def test_json_is_rows_and_units(home: Path) -> None:
    answer = json.loads(pellucid(home, "trials", "--json").stdout)
    assert answer.keys() == {"rows", "units"}
    assert [r["trial"] for r in answer["rows"]] == [1, 2]
    assert answer["units"]["outcome_ratio"] == "ratio"


def test_claims_stand_beside_outcomes(home: Path) -> None:
    assert "queue.sequence_cap_binding" in pellucid(home, "trials", "--claims").stdout
    (row,) = json.loads(pellucid(home, "trials", "--claims", "--json").stdout)["rows"]
    assert (row["trials_count"], row["covered_count"]) == (1, 1)


def test_without_a_session_there_is_nothing_to_list_and_nothing_to_verify(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "trials", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"rows": [], "units": {}})
    assert "nothing was tried yet" in pellucid(tmp_path, "trials").stderr
    assert pellucid(tmp_path, "audit").returncode == 3
    assert pellucid(tmp_path, "trials", "--session", "x").returncode == 2


def test_a_log_that_holds_is_said_to_hold(home: Path) -> None:
    done = pellucid(home, "audit")
    assert done.returncode == 0
    assert "the chain holds; last hash " in done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[0::2][:2] == ["0", "started"]
    assert "trial 1: different: 512 prompts" in done.stdout
    answer = json.loads(pellucid(home, "audit", "--session", SESSION[:8], "--json").stdout)
    assert (answer["whole"], answer["breaks"], answer["rows"][0]["payload"]["command"]) == (True, [], ["serve", "m"])


def test_one_that_does_not_says_where_and_exits_with_1(home: Path) -> None:
    text = journal_of(home).read_text()
    journal_of(home).write_text(text.replace('"word":"different"', '"word":"same"', 1))
    done = pellucid(home, "audit")
    assert done.returncode == 1
    assert "BROKEN, line 9: its hash is not that of its contents: it was changed" in done.stderr
    assert "trial 1: same: 512 prompts" in done.stdout, "what is there is shown all the same"
    assert json.loads(pellucid(home, "audit", "--json").stdout)["whole"] is False
