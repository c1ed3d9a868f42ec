"""Asking an engine for a capture, with workers played by files: what is refused, and when waiting ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe.capture import ASK, MOST_STEPS, Ask

from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.verbs.captures.ask import Asked, Wish, ask, live_workers, only_one, wait

S = 1_000_000_000


def worker(rings: Path, name: str = "worker-1", pid: int | None = None, **described: Any) -> None:
    text = {"role": "worker", "state": "on", "pid": pid or os.getpid(), **described}
    (rings / f"{name}.json").write_text(json.dumps(text))


def answer(asked: Asked, name: str = "worker-1", **said: Any) -> None:
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / f"{name}.json").write_text(json.dumps({"id": asked.id, **said}))


def test_the_probe_understands_what_is_asked(tmp_path: Path) -> None:
    worker(tmp_path)
    asked = ask(tmp_path, Wish(7, within_s=2.0, shapes=True), first_step=40, clock=lambda: 5 * S)
    seen = Ask((tmp_path / ASK).read_text())
    assert (seen.id, seen.steps, seen.first_step, seen.until_ns, seen.shapes) == (asked.id, 7, 40, 7 * S, True)


@pytest.mark.parametrize("steps", [0, -1, MOST_STEPS + 1])
def test_a_wish_no_probe_takes_is_refused(tmp_path: Path, steps: int) -> None:
    worker(tmp_path)
    with pytest.raises(AskedWrongly, match="--steps"):
        ask(tmp_path, Wish(steps))
    assert not (tmp_path / ASK).exists()


def test_only_living_workers_with_a_probe_are_asked(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    worker(tmp_path, "engine_core-1", role="engine_core")
    worker(tmp_path, "worker-2", state="off")
    worker(tmp_path, "worker-3", pid=int(ended.stdout))
    (tmp_path / "worker-4.json").write_text("{")
    (tmp_path / "worker-5.json").write_text("[]")
    with pytest.raises(CannotAnswer, match="no running worker"):
        ask(tmp_path, Wish())
    worker(tmp_path, "engine_core-6", role="engine_core+worker")
    assert live_workers(tmp_path) == ["engine_core-6"]


def test_waiting_ends_when_all_are_through(tmp_path: Path) -> None:
    worker(tmp_path)
    worker(tmp_path, "worker-2")
    asked = ask(tmp_path, Wish())
    answer(asked, state="done", steps=[1, 2], start_ns=7)
    answer(asked, "worker-2", state="refused", reason="no room")
    found = wait(asked, lambda: False)
    assert {n: (a.state, a.steps, a.reason) for n, a in found.items()} == {
        "worker-1": ("done", [1, 2], ""), "worker-2": ("refused", [], "no room")}  # fmt: skip


def test_a_probe_that_does_not_look_is_not_waited_for(tmp_path: Path) -> None:
    worker(tmp_path)
    moments = iter(range(0, 10**6 * S, S))
    asked = ask(tmp_path, Wish(), clock=lambda: next(moments))
    with pytest.raises(CannotAnswer, match="older than captures"):
        wait(asked, lambda: False, clock=lambda: next(moments))


def test_waiting_ends_when_told_to_and_when_time_is_up(tmp_path: Path) -> None:
    worker(tmp_path)
    asked = ask(tmp_path, Wish())
    answer(asked, state="waiting")
    assert wait(asked, lambda: True)["worker-1"].state == "waiting"
    assert wait(asked, lambda: False, clock=lambda: 2**62)["worker-1"].state == "waiting"
    (tmp_path / "worker-1.json").unlink()
    assert wait(asked, lambda: False)["worker-1"].state == "waiting"


def test_one_at_a_time(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(Failed, match="One at a time"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass


def test_an_engine_that_went_idle_is_not_waited_for_and_one_that_writes_is(tmp_path: Path) -> None:
    worker(tmp_path)
    asked = ask(tmp_path, Wish(within_s=10.0), clock=lambda: 0)
    answer(asked, state="waiting")
    assert wait(asked, lambda: False, clock=lambda: 17 * S)["worker-1"].state == "waiting"
    answer(asked, state="writing")
    looked: list[int] = []
    wait(asked, lambda: len(looked) > 2, clock=lambda: looked.append(1) or 17 * S)  # type: ignore[func-returns-value]
    assert len(looked) > 2
