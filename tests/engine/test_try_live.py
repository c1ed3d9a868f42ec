"""Live settings on the real engine: tried in one that runs, also for their answers, and in the same one by the next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.surface.cli.loop.trial import launcher
from pellucid.verbs.launch.descent import alive
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.fidelity import ONE_ENGINE
from pellucid.verbs.loop.report import report
from pellucid.verbs.loop.tuning.tune import resume, tune
from pellucid.verbs.loop.tuning.undo import undo
from pellucid.verbs.loop.tuning.wish import Wish
from tests.engine.test_try import ours, tried, wish
from tests.verbs.loop.trial.made import workload
from tools import real_engine

pytestmark = pytest.mark.verdict      # trials seen through want a machine that nobody else uses

CANDIDATES = """
[[propose]]
set = { sequence_cap = 1 }
[[propose]]
set = { sequence_cap = 2 }
"""


def test_seats_for_all_are_better_than_one_in_one_engine_and_its_answers_are_judged_there(tmp_path: Path) -> None:
    plain = wish(tmp_path, 16, "sequence_cap=16")
    outcome = tried(replace(plain, command=(*plain.command, "--max-num-active-seqs", "1"), fidelity_s=60.0))
    assert (outcome.word, len(outcome.starts)) == ("better", 1), (outcome.reason, outcome.notes)
    assert outcome.fidelity is not None and outcome.fidelity.word in ("same", "inconclusive"), outcome.fidelity
    assert ONE_ENGINE in outcome.fidelity.notes
    assert outcome.fidelity.prompts.startswith("the workload's requests")
    assert {s.arm for s in outcome.requests} == {"present", "candidate"}


def left(folder: Path) -> list[str]:
    """Launchers and recorders of engines of a session in that folder: an engine ends with its launcher."""
    return [m.command for m in alive() if str(folder) in m.command and m.pid != os.getpid()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that was killed while a live setting was in force, and went on to its end."""
    folder, before = tmp_path_factory.mktemp("live"), ours()
    (folder / "list.toml").write_text(CANDIDATES)
    path = workload(folder / "w.parquet", gap_s=1 / 60, prompt=32, output=48, count=2400)
    engine = real_engine.command("tiny-dense", 8000, "--max-num-seqs", "16", "--max-model-len", "512")
    words = [sys.executable, "-m", "pellucid.surface.cli", "tune", "--workload", str(path), "--observe", "1s",
             "--block", "400ms", "--trial", "150s", "--budget", "20m", "--candidates", str(folder / "list.toml"),
             "--no-rules", "--no-twin", "--", *engine]  # fmt: skip
    env = {**os.environ, **real_engine.ENVIRONMENT, "PELLUCID_HOME": str(folder / "home")}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env,
                               cwd=real_engine.ROOT)  # fmt: skip
    assert process.stderr is not None
    with process.stderr as said:
        assert any("pair 2 " in line for line in said)
        mine = ours() - before
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while ours() & mine and time.monotonic() < deadline:
        time.sleep(0.1)
    assert mine and ours() & mine == set()
    os.chdir(real_engine.ROOT)
    resume(None, folder / "home", {**os.environ, **real_engine.ENVIRONMENT}, launcher, print)
    assert left(folder) == []
    return folder / "home"


def test_what_was_cut_off_is_taken_back_and_tried_again(killed: Path) -> None:
    found = audit(killed, None)
    assert found.breaks == ()
    assert [row["kind"] for row in found.rows].count("resumed") == 1
    trials = report(killed, None).trials
    told = [(t.proposed.candidate, t.state) for t in trials]
    assert told == [(f"sequence_cap={n}", "rolled back") for n in (1, 1, 2)]
    assert trials[0].speed is None
    assert {t.speed.word for t in trials[1:] if t.speed} <= {"worse", "inconclusive"}      # as the time allowed


def test_a_live_trial_says_so_and_boots_nothing_where_the_last_one_did(killed: Path) -> None:
    started = [row["payload"] for row in audit(killed, None).rows if row["kind"] == "trialstarted"]
    assert [one["way"] for one in started] == ["live"] * 3
    trials = report(killed, None).trials
    boots = [note for trial in trials for note in trial.notes if note.startswith("start 0")]
    assert len(boots) == 2 and boots[1].endswith("up after 0 s") and not boots[0].endswith("up after 0 s")
    ratios = [trial.courses[0].looks[-1].ratio for trial in trials[1:]]
    assert all(ratio is not None and ratio < 0.9 for ratio in ratios), ratios


def test_a_live_setting_that_is_better_with_the_same_answers_is_kept_as_a_flag_and_undone(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text("[[propose]]\nset = { sequence_cap = 16 }\n")
    path = workload(tmp_path / "w.parquet", gap_s=1 / 60, prompt=32, output=48, count=2400)
    engine = real_engine.command("tiny-dense", 8000, "--max-num-seqs", "16", "--max-model-len", "512",
                                 "--max-num-active-seqs", "1")  # fmt: skip
    asked = Wish(engine, str(path), budget_s=1500.0, trial_s=240.0, observe_s=1.0, block_s=0.4, fidelity_s=300.0,
                 listed=str(tmp_path / "list.toml"), rules=False, twin=False)  # fmt: skip
    os.chdir(real_engine.ROOT)
    done = tune(asked, tmp_path / "home", {**os.environ, **real_engine.ENVIRONMENT}, launcher, print)
    assert left(tmp_path) == []
    assert [(r["state"], r["speed"], r["fidelity"]) for r in done.rows] == [("kept", "better", "same")], done.rows
    assert done.kept_command is not None
    assert "--max-num-active-seqs 16" in " ".join(done.kept_command).replace("=", " ")
    undone = undo(tmp_path / "home", None)
    assert (undone.candidate, undone.command) == ("sequence_cap=16", tuple(engine))
    assert audit(tmp_path / "home", None).breaks == ()
