"""Trials on the real engine: what is better is found better, what is worse is found worse, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.surface.cli.loop.trial import launcher
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.arms import two_engines
from pellucid.tune.effect.judge import judge
from pellucid.tune.effect.spend import Spend
from pellucid.verbs.launch.descent import alive
from pellucid.verbs.loop.trial import noise
from pellucid.verbs.loop.trial.outcome import Outcome
from pellucid.verbs.loop.trial.run import run
from pellucid.verbs.loop.trial.wish import Wish
from tests.verbs.loop.trial.made import workload
from tools import real_engine


def wish(folder: Path, seats: int, *settings: str) -> Wish:
    """Sixty requests a second for 0.4 s: more than one seat serves, and less than sixteen do."""
    path = folder / "w.parquet"
    return Wish(
        settings=settings, home=folder / "home", budget_s=420.0, aim=Aim(), block_s=0.4, pause_s=0.3, launcher=launcher,
        workload=path if path.exists() else workload(path, gap_s=1 / 60, prompt=32, output=48, count=2400),
        command=real_engine.command("tiny-dense", 8000, "--max-num-seqs", str(seats), "--max-model-len", "512"),
    )  # fmt: skip


def tried(what: Wish, say: Callable[[str], None] = print) -> Outcome:
    before = ours()
    os.chdir(real_engine.ROOT)
    try:
        return run(what, {**os.environ, **real_engine.ENVIRONMENT}, say)
    finally:
        assert {m.pid: m.command for m in alive() if m.pid in ours() - before} == {}


def ours() -> set[int]:
    """Engines with the probe, their launchers and recorders, and guardians. Engines without it are somebody else's."""
    marks = ("launch.guardian", "surface.cli record", "surface.cli run")
    return {m.pid for m in alive() if any(mark in m.command for mark in marks) or _has_probe(m.pid)}


def _has_probe(pid: int) -> bool:
    try:
        return b"PELLUCID_DIR=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise of starts of one configuration, from a trial of it against itself, which is not found better."""
    folder = tmp_path_factory.mktemp("try")
    outcome = tried(replace(wish(folder, 16), pairs_most=4))
    assert outcome.word in ("inconclusive", "no difference")
    assert [s.kind for s in outcome.starts] == ["trial", "noise", "noise", "noise", "noise", "trial"]
    assert outcome.starts[0].places == outcome.starts[-1].places[::-1]
    return next((folder / "home" / "noise").glob("*.jsonl"))


@pytest.mark.verdict
def test_noise_judged_as_a_trial_is_not_better(known: Path) -> None:
    """Two of the starts as if the second engine were a candidate, beside what the others tell."""
    pairs = noise.pairs(known)
    for first in range(0, 4, 2):
        chosen = [p for p in pairs if p.start in (first, first + 1)]
        others = [p for p in pairs if p.start not in (first, first + 1)]
        assert judge(chosen, Spend(1), Aim(), two_engines(others)).word != "better"


@pytest.mark.verdict
def test_one_seat_for_many_is_worse(known: Path) -> None:
    outcome = tried(replace(wish(known.parents[2], 16, "max_num_seqs=1"), noise=known))
    assert (outcome.word, outcome.settings) == ("worse", {"max_running_requests": 1}), outcome.reason
    assert outcome.conditions.engine_version.startswith("0.")


@pytest.mark.verdict
def test_seats_for_all_are_better_than_one(known: Path) -> None:
    outcome = tried(replace(wish(known.parents[2], 1, "max_num_seqs=16"), noise=known))
    assert outcome.word == "better", outcome.reason
    assert len(list(outcome.folder.glob("start-*/*/runs/*/run.json"))) == 4      # the probe and a recorder are in each


def test_a_cache_that_does_not_fit_is_refused_before_it_is_started(tmp_path: Path) -> None:
    outcome = tried(wish(tmp_path, 16, "VLLM_CPU_KVCACHE_SPACE=4000"))
    assert (outcome.word, outcome.starts) == ("does not fit", ())


def test_a_block_size_that_the_kernels_do_not_take_does_not_boot(tmp_path: Path) -> None:
    outcome = tried(wish(tmp_path, 16, "block_size=17"))
    assert outcome.word == "does not boot"
    assert outcome.troubles[0].log_tail


def test_a_candidate_that_is_killed_under_load_died(tmp_path: Path) -> None:
    def kill(text: str) -> None:
        if "pair 1 " in text:
            (victim,) = [m.pid for m in alive() if "--max-num-seqs 15" in m.command and "pellucid" not in m.command]
            os.kill(victim, signal.SIGKILL)

    outcome = tried(replace(wish(tmp_path, 16, "max_num_seqs=15"), budget_s=1200.0), kill)
    assert (outcome.word, outcome.troubles[0].role) == ("died", "candidate")


def test_a_trial_that_is_killed_takes_its_engines_with_it(tmp_path: Path) -> None:
    before = ours()
    what = wish(tmp_path, 16, "max_num_seqs=15")
    command = [sys.executable, "-m", "pellucid.surface.cli", "try", "--set", what.settings[0], "--workload",
               str(what.workload), "--block", "400ms", "--", *what.command]  # fmt: skip
    env = {**os.environ, **real_engine.ENVIRONMENT, "PELLUCID_HOME": str(what.home)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env,
                               cwd=real_engine.ROOT)  # fmt: skip
    assert process.stderr is not None
    with process.stderr as said:
        assert any("pair 1 " in line for line in said)
        mine = ours() - before
        assert len(mine) > 6
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while ours() & mine and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ours() & mine == set()
