"""Clocks that jump and a recorder that is stopped for a while: order, durations and sealed rows stay as they are.

    wall        ──────┐   ┌──────      set an hour forward, back again, an hour back
                      └───┘
    CLOCK_MONOTONIC   ────────────     what rows carry; it stands still while the machine sleeps, never jumps
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe.ring import SEGMENT_BYTES, RingWriter

from pellucid.collect.gpu.nvml import Gpus
from pellucid.collect.loop import Recorder
from pellucid.store.read import open_run
from pellucid.store.segment import file_checksum
from pellucid.store.write import Limits, RunWriter
from tests.collect.toy_engine import ToyEngine

HOUR_NS = 3600 * 10**9
TABLES = ("steps", "step_runs", "requests", "request_events")


@pytest.fixture
def shm() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


class Wall:
    """The wall clock, as somebody sets it."""

    def __init__(self) -> None:
        self.start_ns = time.time_ns()
        self.offset_ns = 0

    def time_ns(self) -> int:
        return self.start_ns + self.offset_ns


def recorded(root: Path, wall: Wall, jumps: dict[int, int]) -> tuple[dict[str, list[dict[str, Any]]], set[Any]]:
    """Sixty steps, recorded while the wall clock is set at some of them. The rows, and the anchors that rows are placed
    with; rows of `steps` come in the order in which they were written."""
    root.mkdir()
    engine = ToyEngine(RingWriter(str(root / "engine_core-7.ring"), 64 * SEGMENT_BYTES), random.Random(4))
    clock = lambda: engine.now  # noqa: E731
    writer = RunWriter(root / "run", Limits(flush_s=0.001, seal_rows=20), clock)
    recorder = Recorder(root, writer, clock, Gpus("none"))
    for step in range(60):
        wall.offset_ns += jumps.get(step, 0)
        engine.arrive()
        engine.run_step()
        engine.now += 1_500_000_000
        recorder.cycle()
    recorder.end()
    run = open_run(root / "run")
    anchors = {(r["anchor_mono_ns"], r["anchor_wall_ns"]) for r in run.rows("SELECT * FROM sources")}
    return {t: run.rows(f"SELECT * FROM {t}") for t in TABLES}, anchors


@pytest.mark.slow
@pytest.mark.parametrize("jumps", [{20: HOUR_NS}, {20: -HOUR_NS}, {15: HOUR_NS, 30: -2 * HOUR_NS, 45: 5_000_000}],
                         ids=["forward", "back", "again and again"])  # fmt: skip
def test_a_wall_clock_that_is_set_while_recording_changes_no_row(
    shm: Path, monkeypatch: pytest.MonkeyPatch, jumps: dict[int, int]
) -> None:
    wall = Wall()
    monkeypatch.setattr(time, "time_ns", wall.time_ns)
    monkeypatch.setattr(time, "time", lambda: wall.time_ns() / 1e9)
    even, _ = recorded(shm / "even", wall, {})
    stepped, anchors = recorded(shm / "stepped", wall, jumps)
    assert len(even["steps"]) > 50 and stepped == even
    ends = [row["end_ns"] for row in stepped["steps"]]
    assert ends == sorted(ends) and all(r["end_ns"] > r["start_ns"] for r in stepped["steps"])
    assert len(anchors) == 1, "one anchor places all rows, before and after the clock was set"


def recorder(rings: Path, run: Path, **settings: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PELLUCID_SEAL_ROWS": "20", "PELLUCID_FLUSH_S": "0.02", "PELLUCID_POLL_S": "0.01", **settings}
    command = [sys.executable, "-m", "pellucid.surface.cli", "record", str(rings), "--run-folder", str(run),
               "--home", str(run.parent / "home")]  # fmt: skip
    return subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)


def until(there: Callable[[], object]) -> None:
    end_s = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def work(engine: ToyEngine, steps: int) -> None:
    for _ in range(steps):
        engine.arrive(prompt=20)
        engine.run_step()


@pytest.mark.slow
@pytest.mark.parametrize(("segments", "lost"), [(64, False), (2, True)], ids=["in time", "too late"])
def test_a_recorder_that_is_stopped_and_goes_on_loses_no_sealed_row(
    shm: Path, tmp_path: Path, segments: int, lost: bool
) -> None:
    """What the ring still holds is recorded when it goes on; what was overwritten meanwhile is counted."""
    rings, run = shm, tmp_path / "run"
    engine = ToyEngine(RingWriter(str(rings / "engine_core-7.ring"), segments * SEGMENT_BYTES), random.Random(5))
    work(engine, 30)
    with recorder(rings, run) as process:
        try:
            until(lambda: list(run.glob("steps-*.parquet")))
            process.send_signal(signal.SIGSTOP)
            before = {p: file_checksum(p) for p in run.glob("*.parquet")}
            work(engine, 20_000 if lost else 300)
            process.send_signal(signal.SIGCONT)
            work(engine, 10)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert {p: file_checksum(p) for p in before} == before
    found = open_run(run)
    steps = [r["step"] for r in found.rows("SELECT step FROM steps ORDER BY step")]
    assert found.damaged == []
    assert steps[:30] == list(range(1, 31)) and steps[-1] == engine.step
    assert len(steps) == len(set(steps))
    counted = found.one("SELECT max(lost_count) AS n FROM sources")["n"]
    assert (counted > 0, len(steps) < engine.step) == (lost, lost)
