"""Sessions and trials on a disk, found and read for a report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.tune import events as e
from pellucid.tune.report.measured import measured
from pellucid.tune.report.trial import NO_REQUESTS
from pellucid.verbs.loop.report import report
from pellucid.verbs.loop.sessions import writing
from pellucid.verbs.loop.trial.arms.trouble import Trouble
from pellucid.verbs.loop.trial.outcome import Conditions, Outcome, StartOf, keep
from pellucid.verbs.loop.tuning.wish import Wish, save
from tests.tune.report.made import KEPT, outcome, same
from tests.tune.session import World
from tests.verbs.loop.test_sessions import SESSION, A, B, journal_of, ticking, whole_session

TRIAL = "20261130-093000-ffff"


def left_behind(folder: Path) -> Outcome:
    """As `pellucid try` makes it."""
    of = outcome(1.08, 12)
    where = Conditions("x86_64, AMD EPYC", ("core 0", "core 1"), "engine", "1.0", "m", ("serve", "m"), "w.parquet",
                       {"seed": 7}, 10_000_000_000, {"too long": 3})  # fmt: skip
    return Outcome(TRIAL, 1, 2, "a=1", {"a": 1}, "better", "so", where, (StartOf(0, "trial", ("core 0",), 1.0, 12),),
                   of.pairs, of.effect, same(), "", (Trouble("candidate", "died", "code 9", ("Killed",)),), ("note",),
                   folder)  # fmt: skip


def tried(home: Path, trial: str = TRIAL) -> Path:
    folder = home / "trials" / trial
    folder.mkdir(parents=True)
    return keep(left_behind(folder))


def session_with(home: Path, evidence: dict[str, Any]) -> None:
    """One kept trial, with this as the evidence of its speed."""
    with writing(home, SESSION, ticking()) as (journal, _):
        for event in KEPT:
            if isinstance(event, e.SpeedJudged):
                event = e.SpeedJudged(1, "better", event.measures, (), 1, 1, None, evidence)
            journal.record(event)


def test_every_part_of_an_outcome_that_a_trial_leaves_behind_is_read(tmp_path: Path) -> None:
    made = left_behind(tmp_path)
    found = measured(json.loads(keep(made).read_bytes()))
    assert not isinstance(found, str)
    assert (found.pairs, found.effect, found.fidelity) == (made.pairs, made.effect, made.fidelity)
    assert found.faults()[0].says == "candidate died: code 9"
    assert found.all_notes() == ("start 0: trial, 12 pairs, up after 1 s", "3 requests were left out: too long", "note")


def test_without_anything_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="nothing was tried"):
        report(tmp_path, None)
    with pytest.raises(AskedWrongly, match="neither a session nor a trial"):
        report(tmp_path, "x")


def test_a_trial_alone_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    tried(tmp_path)
    assert report(tmp_path, None).id == report(tmp_path, "20261130-0930").id == TRIAL
    tried(tmp_path, f"{TRIAL}2")
    assert report(tmp_path, TRIAL).id == TRIAL
    with pytest.raises(AskedWrongly, match="2 trials start so"):
        report(tmp_path, "2026")


def test_a_trial_alone_after_the_newest_session_is_newer_and_one_of_the_session_is_not(tmp_path: Path) -> None:
    path = tried(tmp_path)
    session_with(tmp_path, {})
    assert (TRIAL > SESSION, report(tmp_path, None).kind) == (True, "trial")
    shutil.rmtree(journal_of(tmp_path).parent)
    session_with(tmp_path, {"outcome": str(path)})
    assert report(tmp_path, None).kind == "session"


def test_a_session_is_told_with_its_trials_and_its_log(tmp_path: Path) -> None:
    whole_session(tmp_path, World((A, B), fidelity="different"))
    made = report(tmp_path, None)
    assert (made.kind, made.id) == ("session", SESSION)
    assert [t.state for t in made.trials] == ["rolled back", "rolled back"]
    assert made.chain is not None and made.chain.whole and made.chain.entries_count == len(
        journal_of(tmp_path).read_bytes().splitlines())  # fmt: skip


@pytest.mark.parametrize("moved", [False, True])
def test_an_outcome_is_read_from_where_the_journal_says_or_where_its_home_is_now(tmp_path: Path, moved: bool) -> None:
    path = tried(tmp_path)
    session_with(tmp_path, {"outcome": f"/gone/trials/{TRIAL}/outcome.json" if moved else str(path)})
    (trial,) = report(tmp_path, None).trials
    assert (len(trial.arms), trial.missing) == (7, (NO_REQUESTS,))


@pytest.mark.parametrize(("text", "why"), [
    (None, "is not there"), ("{", "does not read"), ('{"pairs": 3}', "another version of pellucid wrote it"),
])  # fmt: skip
def test_an_outcome_that_does_not_read_is_said(tmp_path: Path, text: str | None, why: str) -> None:
    path = tried(tmp_path)
    path.unlink() if text is None else path.write_text(text)
    session_with(tmp_path, {"outcome": str(path)})
    assert why in next(m for m in report(tmp_path, None).trials[0].missing if m.startswith("the blocks of both arms"))


def test_a_trial_alone_that_does_not_read_is_a_failure(tmp_path: Path) -> None:
    tried(tmp_path).write_text("{")
    with pytest.raises(Failed, match="does not read"):
        report(tmp_path, None)


def test_a_number_that_is_none_was_not_seen(tmp_path: Path) -> None:
    path = tried(tmp_path)
    made = json.loads(path.read_bytes())
    made["effect"]["metrics"][0]["bias_ratio"] = float("nan")
    path.write_text(json.dumps(made))
    assert report(tmp_path, None).trials[0].courses[0].bias_ratio is None


def test_traffic_and_seed_are_those_that_were_asked_for_until_a_trial_tells(tmp_path: Path) -> None:
    session_with(tmp_path, {})
    assert report(tmp_path, None).conditions.seed is None
    save(Wish(("serve", "m"), "w.parquet", seed=11, block_s=4.0), tmp_path / "sessions" / SESSION)
    told = report(tmp_path, None).conditions
    assert (told.seed, told.traffic["block_ns"]) == (11, 4_000_000_000)
    shutil.rmtree(journal_of(tmp_path).parent)
    session_with(tmp_path, {"outcome": str(tried(tmp_path))})
    assert report(tmp_path, None).conditions.seed == 7


def test_a_broken_chain_is_in_the_report(tmp_path: Path) -> None:
    whole_session(tmp_path, World((A,), fidelity="different"))
    text = journal_of(tmp_path).read_text()
    journal_of(tmp_path).write_text(text.replace('"word":"different"', '"word":"same"', 1))
    chain = report(tmp_path, None).chain
    assert chain is not None
    assert chain.breaks == ("line 9: its hash is not that of its contents: it was changed",)


def test_what_is_in_the_report_is_json(tmp_path: Path) -> None:
    session_with(tmp_path, {"outcome": str(tried(tmp_path))})
    made = json.loads(json.dumps(report(tmp_path, None).json(), allow_nan=False))
    assert made["trials"][0]["proposed"]["settings"] == {"step_token_budget": 512}
    assert made["chain"]["whole"] is True
