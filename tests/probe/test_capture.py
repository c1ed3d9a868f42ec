"""A capture: exactly the steps asked for, begun and ended between steps, and an engine that never notices a fault."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe import capture
from pellucid_probe.capture import ASK, FOLDER, MOST_STEPS, Ask, Capture
from pellucid_probe.guard import COST

LATER = 2**62


class Profiler:
    """Keeps what happened to it; `faults` names the calls that raise."""

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self.faults, self.calls, self.labels = faults, [], []  # type: ignore[var-annotated]

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.faults:
            raise RuntimeError(name)

    def start(self) -> None:
        self._call("start")

    def stop(self) -> None:
        self._call("stop")

    def export_chrome_trace(self, path: str) -> None:
        self._call("export")
        Path(path).write_text("{}")


class Range:
    def __init__(self, profiler: Profiler, text: str) -> None:
        self.profiler, self.text = profiler, text

    def __enter__(self) -> None:
        self.profiler._call("enter")
        self.profiler.labels.append(self.text)

    def __exit__(self, *_: object) -> None:
        self.profiler._call("exit")


def made(folder: Path, *faults: str) -> tuple[Capture, Profiler]:
    profiler = Profiler(faults)
    return Capture(str(folder), "worker-1", lambda _ask: profiler, lambda text: Range(profiler, text)), profiler


def asking(folder: Path, **given: Any) -> None:
    (folder / ASK).write_text(json.dumps({"id": "c1", "steps": 2, "until_ns": LATER, **given}))


def run(seen: Capture, *steps: int) -> None:
    """Steps of two parts, as an engine makes them."""
    for step in steps:
        seen.begin(step, "execute")
        seen.end(step, last=False)
        seen.begin(step, "sample")
        seen.end(step, last=True)


def answer(folder: Path) -> dict[str, Any]:
    for thread in threading.enumerate():
        if thread.name == "pellucid-capture":
            thread.join()
    said: dict[str, Any] = json.loads((folder / FOLDER / "c1" / "worker-1.json").read_text())
    return said


def test_exactly_the_steps_asked_for_are_in_it(tmp_path: Path) -> None:
    seen, profiler = made(tmp_path)
    run(seen, 1, 2)
    asking(tmp_path, first_step=4)
    seen.look()
    run(seen, 3, 4, 0, 5, 6)
    said = answer(tmp_path)
    assert (said["state"], said["reason"], said["steps"]) == ("done", "", [4, 5])
    assert profiler.labels == [f"pellucid step={n} {part}" for n in (4, 5) for part in ("execute", "sample")]
    assert profiler.calls.count("enter") == profiler.calls.count("exit")
    assert (profiler.calls[0], profiler.calls[-2:]) == ("start", ["stop", "export"])
    assert (tmp_path / FOLDER / "c1" / "worker-1.trace.json").read_text() == "{}"
    assert {"start_ns", "start_wall_ns", "start_cost_ns", "stop_ns", "stop_cost_ns", "export_ns"} <= said.keys()


def test_a_capture_that_is_asked_for_in_the_middle_of_a_step_begins_with_the_next(tmp_path: Path) -> None:
    seen, _ = made(tmp_path)
    asking(tmp_path)
    seen.begin(7, "execute")
    seen.end(7, last=False)
    seen.look()
    seen.begin(7, "sample")
    seen.end(7, last=True)
    run(seen, 8, 9)
    assert answer(tmp_path)["steps"] == [8, 9]


def test_a_step_in_one_part_counts_too(tmp_path: Path) -> None:
    seen, _ = made(tmp_path)
    asking(tmp_path)
    seen.look()
    for step in (1, 2, 3):
        seen.begin(step, "execute")
        seen.end(step, last=True)
    assert answer(tmp_path)["steps"] == [1, 2]


def test_when_its_time_is_up_what_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, _ = made(tmp_path)
    asking(tmp_path, steps=50, until_ns=time.monotonic_ns() + 10**12)
    seen.look()
    run(seen, 1, 2, 3)
    monkeypatch.setattr(time, "monotonic_ns", lambda: LATER)
    run(seen, 4, 5)
    said = answer(tmp_path)
    assert (said["state"], said["reason"], said["steps"]) == ("done", "its time was up", [1, 2, 3])


def test_an_idle_engine_gives_the_capture_up_and_takes_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = made(tmp_path)
    asking(tmp_path, until_ns=time.monotonic_ns() + 10**9)
    seen.look()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic_ns", lambda: LATER)
        seen.look()
        assert (answer(tmp_path)["state"], "idle" in answer(tmp_path)["reason"]) == ("refused", True)
    asking(tmp_path, steps=1)
    seen.look()
    run(seen, 9)
    assert answer(tmp_path)["steps"] == [9]


def test_the_same_words_are_not_taken_twice(tmp_path: Path) -> None:
    seen, profiler = made(tmp_path)
    asking(tmp_path)
    for _ in range(3):
        seen.look()
        run(seen, 1, 2)
        answer(tmp_path)
    assert profiler.calls.count("start") == 1


@pytest.mark.parametrize(("fault", "state"), [
    ("start", "refused"), ("enter", "failed"), ("exit", "failed"), ("stop", "failed"), ("export", "failed"),
])  # fmt: skip
def test_a_fault_of_the_profiler_ends_the_capture_and_nothing_else(tmp_path: Path, fault: str, state: str) -> None:
    seen, profiler = made(tmp_path, fault)
    asking(tmp_path)
    seen.look()
    run(seen, 1, 2, 3)
    said = answer(tmp_path)
    assert (said["state"], said["reason"]) == (state, f"RuntimeError: {fault}" if fault != "export" else said["reason"])
    assert fault in said["reason"]
    assert fault == "start" or "stop" in profiler.calls
    assert seen.asked is None
    assert list((tmp_path / FOLDER / "c1").glob("*.part")) == []


@pytest.mark.parametrize(("variable", "value", "says"), [
    ("PELLUCID_CAPTURE", "0", "PELLUCID_CAPTURE=0"),
    ("CUDA_INJECTION64_PATH", "/opt/tool/libinjection.so", "another profiler holds the device"),
    ("NSYS_PROFILING_SESSION_ID", "7", "another profiler holds the device"),
])  # fmt: skip
def test_it_yields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str) -> None:
    monkeypatch.setenv(variable, value)
    seen, profiler = made(tmp_path)
    asking(tmp_path)
    seen.look()
    run(seen, 1, 2)
    assert (answer(tmp_path)["state"], says in answer(tmp_path)["reason"]) == ("refused", True)
    assert profiler.calls == []


def test_it_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "ROOM_BYTES", 1 << 60)
    seen, _ = made(tmp_path)
    asking(tmp_path)
    seen.look()
    assert "MiB are free" in answer(tmp_path)["reason"]


@pytest.mark.parametrize("given", [
    {"steps": 0}, {"steps": MOST_STEPS + 1}, {"steps": True}, {"steps": "3"}, {"steps": None}, {"id": "../x"},
    {"id": ""}, {"id": "a\n"}, {"id": None}, {"first_step": -1}, {"until_ns": 0}, {"until_ns": 1.5},
])  # fmt: skip
def test_what_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Ask(json.dumps({"id": "c1", "steps": 2, "until_ns": LATER, **given}))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"id": "c1"}', "\x00" * 100])
def test_damaged_words_do_nothing(tmp_path: Path, text: str) -> None:
    seen, profiler = made(tmp_path)
    (tmp_path / ASK).write_text(text)
    seen.look()
    run(seen, 1)
    assert (seen.asked, profiler.calls) == (None, [])


def test_a_capture_that_ends_when_nobody_waits_any_more_writes_nothing(tmp_path: Path) -> None:
    seen, profiler = made(tmp_path)
    asking(tmp_path)
    seen.look()
    run(seen, 1)
    (tmp_path / FOLDER / "c1" / "worker-1.json").unlink()
    (tmp_path / FOLDER / "c1").rmdir()
    run(seen, 2)
    for thread in threading.enumerate():
        if thread.name == "pellucid-capture":
            thread.join()
    assert profiler.calls[-1] == "stop" and not (tmp_path / FOLDER / "c1").exists()
    asking(tmp_path, id="c2")
    seen.look()
    assert seen.asked is not None


def test_the_probes_own_cost_never_falls_by_a_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its begin is not clocked as ours, so nothing may be taken off for it: a negative cost cannot be packed."""
    seen, profiler = made(tmp_path)
    monkeypatch.setattr(profiler, "start", lambda: time.sleep(0.02))
    monkeypatch.setattr(profiler, "stop", lambda: time.sleep(0.02))
    asking(tmp_path, steps=1)
    seen.look()
    cost_ns = COST.ns
    seen.begin(1, "execute")
    assert COST.ns == cost_ns
    start_ns = time.monotonic_ns()
    seen.end(1, last=True)
    COST.ns += time.monotonic_ns() - start_ns       # as the hook does
    assert 0 <= COST.ns - cost_ns < 10_000_000
