"""The file `pause` in the probe's folder: hooks look away, and facts are blind meanwhile."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe.guard import MAX_ERRORS, Hook, Target
from pellucid_probe.process import PAUSE, Process

WORK = Target("paused_engine", "Engine.work", ("self",))
OTHER = Target("paused_engine", "Engine.other", ("self",))


class Engine:
    def work(self) -> str:
        return "done"

    def other(self) -> str:
        return "done"


@pytest.fixture
def process() -> Iterator[tuple[Process, Any, list[str]]]:
    module: Any = types.ModuleType("paused_engine")
    module.Engine = type("Engine", (Engine,), dict(vars(Engine)))     # hooks are set on the class
    sys.modules["paused_engine"] = module
    seen: list[str] = []

    def boom(*_args: Any) -> None:
        raise RuntimeError("ours")

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = Process(folder, "engine_core", "vllm", "0.32")
        made.see("step.times", [Hook(WORK, before=lambda *_: seen.append("work"))])
        made.see("step.grammar", [Hook(OTHER, before=boom)])
        yield made, module.Engine(), seen
    del sys.modules["paused_engine"]


def facts(process: Process) -> dict[str, str]:
    process.describe()
    described = json.loads((Path(process.where) / f"{process.name}.json").read_text())
    return {name: fact["reason"] for name, fact in described["facts"].items() if fact["state"] == "blind"}


def test_a_paused_probe_sees_nothing_and_says_so_and_looks_again(process: Any) -> None:
    probe, engine, seen = process
    resumed: list[bool] = []
    probe.on_resume.append(lambda: resumed.append(True))
    assert engine.work() == "done"
    probe.pause(True)
    assert engine.work() == "done"
    assert seen == ["work"]
    assert "paused" in facts(probe)["step.times"]
    assert resumed == []
    probe.pause(False)
    engine.work()
    assert seen == ["work", "work"]
    assert facts(probe) == {}
    assert resumed == [True]


def test_a_hook_that_fell_silent_by_itself_stays_silent(process: Any) -> None:
    probe, engine, _ = process
    for _ in range(MAX_ERRORS):
        engine.other()
    probe.pause(True)
    probe.pause(False)
    assert not probe.hooks["step.grammar"][0].on
    assert "switched itself off" in facts(probe)["step.grammar"]


def test_the_file_is_noticed_by_our_thread(process: Any) -> None:
    probe, _, _ = process
    probe.start_thread()
    file = Path(probe.where) / PAUSE
    for asked in (True, False):
        file.touch() if asked else file.unlink()
        deadline = time.monotonic() + 10
        while probe.paused is not asked and time.monotonic() < deadline:
            time.sleep(0.02)
        assert probe.paused is asked
