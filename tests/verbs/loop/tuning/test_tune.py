"""Sessions on a server that stands for an engine: what is kept, what is not, and what a kill leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.verbs.launch.descent import alive
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.report import report
from pellucid.verbs.loop.tuning.tune import Done, resume, tune
from pellucid.verbs.loop.tuning.undo import undo
from pellucid.verbs.loop.tuning.wish import Wish
from tests.verbs.loop.trial.made import plain, stub_command, workload

pytestmark = pytest.mark.slow

ENVIRON = {"PATH": "/usr/bin:/bin"}


def wish(folder: Path, *flags: str, candidates: str = "", **changes: object) -> Wish:
    """Blocks and times of a test."""
    listed = folder / "list.toml"
    listed.write_text(candidates or "[[propose]]\nset = { max_num_seqs = 7 }\n")
    asked: dict[str, object] = {"budget_s": 60.0, "trial_s": 6.0, "observe_s": 0.3, "block_s": 0.3, "fidelity_s": 5.0}
    asked |= changes
    path = workload(folder / "w.parquet", gap_s=0.02, prompt=8, output=4)
    return Wish(stub_command(folder, *flags), str(path), listed=str(listed), **asked)  # type: ignore[arg-type]


def tuned(asked: Wish, home: Path, said: list[str] | None = None) -> Done:
    return tune(asked, home, ENVIRON, plain, (said if said is not None else []).append)


def left(folder: Path) -> list[str]:
    return [m.command for m in alive() if str(folder) in m.command]


def test_a_candidate_that_dies_is_taken_back_and_nothing_beats_the_present_one(tmp_path: Path) -> None:
    done = tuned(wish(tmp_path, "--odd", "7=die"), tmp_path / "home")
    assert done.json()["ending"] == "done"
    assert done.json()["says"].startswith("nothing was shown to beat the present configuration")
    assert [(r["state"], "died" in r["why"]) for r in done.rows] == [("rolled back", True)]
    assert left(tmp_path) == []
    assert audit(tmp_path / "home", None).breaks == ()


def test_each_pair_is_in_the_log_and_requests_are_in_the_report(tmp_path: Path) -> None:
    tuned(wish(tmp_path), tmp_path / "home")
    kinds = [row["kind"] for row in audit(tmp_path / "home", None).rows]
    made = report(tmp_path / "home", None)
    looks = [len(course.looks) for course in made.trials[0].courses]
    assert looks[0] == kinds.count("peeked") >= 1
    assert kinds.index("trialstarted") < kinds.index("peeked") < kinds.index("speedjudged")
    assert {(s.metric, s.arm, s.failed_count) for s in made.trials[0].requests} == {
        (m, a, 0) for m in ("ttft_ns", "itl_mean_ns") for a in ("present", "candidate")}  # fmt: skip
    assert len({s.requests_count for s in made.trials[0].requests}) == 1


def test_what_cannot_be_tried_is_refused_and_told(tmp_path: Path) -> None:
    listed = "[[propose]]\nset = { max_num_seqs = 9000 }\n[[propose]]\nset = { step_token_budget = 4 }\n"
    done = tuned(wish(tmp_path, candidates=listed), tmp_path / "home")
    assert {r["state"] for r in done.rows if "9000" in r["candidate"]} == {"refused"}
    assert "from 1 to 4096" in next(r["why"] for r in done.rows if "9000" in r["candidate"])


def test_a_budget_that_is_too_small_is_an_ending(tmp_path: Path) -> None:
    done = tuned(wish(tmp_path, budget_s=4.0), tmp_path / "home")
    assert [r["state"] for r in done.rows] == ["refused"] and "larger --budget" in done.rows[0]["why"]


def test_a_wish_that_makes_no_sense_starts_nothing(tmp_path: Path) -> None:
    silly = tmp_path / "silly.toml"
    silly.write_text('[[propose]]\nset = {}\nclaim = { metric = "fun", low_ratio = 0, high_ratio = 1 }')
    for changes, says in (
        ({"slo": "ttft_p95<1s,ttft_p95>2s"}, "exclude each other"), ({"maximise": "goodput"}, "needs --slo"),
        ({"workload": "/nowhere"}, "no such file"), ({"listed": "/nowhere"}, "/nowhere: No such file"),
        ({"listed": str(silly)}, "silly.toml: entry 1: claim on fun"),
    ):  # fmt: skip
        with pytest.raises(AskedWrongly, match=says):
            asked = wish(tmp_path)
            tuned(Wish(**{**{f: getattr(asked, f) for f in asked.__struct_fields__}, **changes}), tmp_path / "home")
    assert not (tmp_path / "home" / "sessions").exists()


def test_nothing_kept_is_nothing_to_undo(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="nothing is kept"):
        undo(tmp_path / "home", None)


WATCHED = """
import sys, msgspec
from pathlib import Path
from pellucid.verbs.loop.tuning.tune import tune
from pellucid.verbs.loop.tuning.wish import Wish
from tests.verbs.loop.trial.made import plain

wish = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Wish)
tune(wish, Path(sys.argv[2]), {"PATH": "/usr/bin:/bin"}, plain, lambda text: print(text, flush=True))
"""


def cut_off(folder: Path, home: Path, until: str, sign: signal.Signals) -> None:
    """A session in a process of its own, which gets the signal when it says that."""
    (folder / "wish.json").write_bytes(msgspec.json.encode(wish(folder)))
    words = [sys.executable, "-c", WATCHED, str(folder / "wish.json"), str(home)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        assert any(until in line for line in said)
        process.send_signal(sign)
        process.wait(30)


@pytest.mark.parametrize("until", ["observing", "trial 1", "it serves after", "pair 1"])
def test_killed_in_whatever_state_it_leaves_no_engine_and_goes_on(tmp_path: Path, until: str) -> None:
    home = tmp_path / "home"
    cut_off(tmp_path, home, until, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while left(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left(tmp_path) == []
    done = resume(None, home, ENVIRON, plain, print)
    assert done.json()["ending"] in ("done", "budget")
    assert audit(home, None).breaks == ()
    assert json.loads(json.dumps(done.json()))["present"] == {}
    with pytest.raises(CannotAnswer, match="no session was cut off"):
        resume(None, home, ENVIRON, plain, print)


def test_an_interrupted_trial_has_ended_its_engines_before_it_is_taken_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cut_off(tmp_path, home, "pair 1", signal.SIGINT)
    assert left(tmp_path) == []
    kinds = [row["kind"] for row in audit(home, None).rows]
    assert kinds[-3:] == ["interrupted", "rolledback", "finished"]
