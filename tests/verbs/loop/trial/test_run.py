"""Trials of a server that stands for an engine: every way in which one can go wrong, and what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.tune.effect.aim import Aim
from pellucid.verbs.launch.descent import alive
from pellucid.verbs.loop.trial import noise
from pellucid.verbs.loop.trial.lab import noise_conditions
from pellucid.verbs.loop.trial.run import LOCK, looks, only_one
from pellucid.verbs.loop.trial.wish import Wish
from tests.verbs.loop.trial.made import stub_wish, tried

pytestmark = pytest.mark.slow

ORPHAN = "sleep 3021.5"


def left(folder: Path) -> list[str]:
    """Processes of a trial's engines, and what they had started."""
    return [m.command for m in alive() if str(folder) in m.command or m.command == ORPHAN]



@pytest.mark.parametrize(("kind", "word"), [
    ("fail", "does not boot"), ("slow", "boots too slowly"), ("die", "died"), ("orphan", "died"),
    ("errors", "answers with errors"),
])  # fmt: skip
def test_what_a_candidate_does_instead_of_serving_is_its_verdict(tmp_path: Path, kind: str, word: str) -> None:
    outcome = tried(stub_wish(tmp_path, "--odd", f"7={kind}", boot_limit_s=3.0))
    assert (outcome.word, [t.word for t in outcome.troubles]) == (word, [word])
    assert left(tmp_path) == []
    assert json.loads((outcome.folder / "outcome.json").read_text())["word"] == word


def test_a_candidate_that_does_not_answer_hangs(tmp_path: Path) -> None:
    outcome = tried(stub_wish(tmp_path, "--odd", "7=hang", overdue_s=1.0))
    assert outcome.word == "hangs"
    assert outcome.reason.startswith("the candidate hangs: none of 15 requests was answered within 3 s")
    assert left(tmp_path) == []


def test_a_present_configuration_that_dies_leaves_no_verdict(tmp_path: Path) -> None:
    outcome = tried(stub_wish(tmp_path, "--odd", "8=die"))
    assert (outcome.word, outcome.troubles[0].role, outcome.troubles[0].word) == ("inconclusive", "present", "died")
    assert left(tmp_path) == []


def test_a_present_configuration_that_does_not_boot_is_no_trial(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"(?s)present configuration does not boot: .*cannot be configured"):
        tried(stub_wish(tmp_path, "--odd", "8=fail"))
    assert left(tmp_path) == []


def test_settings_that_make_no_sense_are_refused_and_the_engine_goes(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="max_running_requests goes from 1 to 4096"):
        tried(stub_wish(tmp_path, settings=("max_num_seqs=0",)))
    assert left(tmp_path) == []


def test_a_budget_that_ends_before_the_first_pair_says_so(tmp_path: Path) -> None:
    outcome = tried(stub_wish(tmp_path, budget_s=0.5))
    assert (outcome.word, outcome.effect) == ("inconclusive", None)
    assert "the time ended before the first pair" in outcome.reason


def test_what_is_known_is_told_after_each_pair_and_the_outcome_comes_last(tmp_path: Path) -> None:
    wish, seen = stub_wish(tmp_path, pairs_most=2, budget_s=60.0), []
    found = looks(wish, {"PATH": "/usr/bin:/bin"}, lambda _: None)
    with pytest.raises(StopIteration) as end:
        while True:
            seen.append(next(found).pairs_count)
    outcome = end.value.value
    assert seen == [1, 2] and len(outcome.pairs) == 2
    assert [s.requests_count for s in outcome.requests] == [30] * 4      # fifteen a block, an arm in each pair


def children() -> list[str]:
    return [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


def test_a_trial_that_is_closed_early_ends_its_engines_and_has_no_outcome(tmp_path: Path) -> None:
    wish = stub_wish(tmp_path)
    found = looks(wish, {"PATH": "/usr/bin:/bin"}, lambda _: None)
    next(found)
    assert len(children()) == 2      # a guardian for each engine, without which neither lives
    found.close()
    assert children() == []
    assert list(wish.home.rglob("outcome.json")) == []


def test_two_trials_at_once_are_refused(tmp_path: Path) -> None:
    wish = stub_wish(tmp_path)
    (wish.home / "trials").mkdir(parents=True)
    with only_one(wish.home / "trials" / LOCK), pytest.raises(Failed, match="another trial is running"):
        tried(wish)


def known_bias(wish: Wish) -> Wish:
    """As if A/A starts had been measured before: twelve, whose engines differ by a few per mille."""
    first = tried(replace(wish, settings=(), pairs_most=2))
    conditions = noise_conditions(first.conditions)
    path = noise.place(wish.home, conditions)
    path.unlink(missing_ok=True)
    for n in range(12):
        more = 1 + (-1) ** n * 0.004
        blocks = [replace(p, b=replace(p.a, ttft_p50_ns=(p.a.ttft_p50_ns or 0) * more)) for p in first.pairs]
        moments = [(n * 10 + i) * 1_000 for i in range(len(blocks))]
        noise.add(path, conditions, [noise.Timed(p, t, t + 1) for p, t in zip(blocks, moments, strict=True)])
    return wish


def test_a_slower_candidate_is_worse_after_two_starts_where_the_engines_own_difference_is_known(tmp_path: Path) -> None:
    """A seat for one request where fifty come each second, of 40 ms each."""
    slow = stub_wish(tmp_path, "--step-ms", "10", settings=("max_num_seqs=1",), aim=Aim("ttft_p50_ns"), block_s=0.15,
                     budget_s=60.0)  # fmt: skip
    outcome = tried(known_bias(slow))
    assert outcome.word == "worse", (outcome.reason, outcome.notes)
    assert [s.kind for s in outcome.starts] == ["trial", "trial"]


WATCHED = """
import sys
from pathlib import Path
from tests.verbs.loop.trial.made import stub_wish
from pellucid.verbs.loop.trial.run import run

wish = stub_wish(Path(sys.argv[1]), *sys.argv[2:], budget_s=60.0)
run(wish, {"PATH": "/usr/bin:/bin"}, lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize(("until", "flags", "sign"), [
    ("starting the present configuration", ("--odd", "8=slow"), signal.SIGKILL),
    ("it serves after", ("--odd", "7=slow"), signal.SIGKILL),
    ("pair 2", (), signal.SIGKILL),
    ("the engines' own difference: pair 1", (), signal.SIGKILL),
    ("pair 1", (), signal.SIGTERM),
    ("pair 1", (), signal.SIGINT),
])  # fmt: skip
def test_whoever_ends_a_trial_in_whatever_state_nothing_is_left(
    tmp_path: Path, until: str, flags: tuple[str, ...], sign: signal.Signals
) -> None:
    process = subprocess.Popen([sys.executable, "-c", WATCHED, str(tmp_path), *flags], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    assert process.stdout is not None
    with process.stdout as said:
        assert any(until in line for line in said)
        time.sleep(0.2)
        assert left(tmp_path) != []
        process.send_signal(sign)
        process.wait(20)
    deadline = time.monotonic() + 10
    while left(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left(tmp_path) == []
