"""Asking an engine's processes for live settings: all take them or none keeps them, and nobody's death leaves any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe.control import ASK, FOLDER, Control

import pellucid.verbs.loop.live as verbs
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.verbs.loop.live import keep, open_desk, renew, revert, set_values, status, undo
from pellucid.verbs.site import CONTROL_KEY, put_control_key
from tests.probe.test_control import Cap

FRONTENDS = ("frontend-1", "frontend-2")


class Small(Cap):
    """One that does not take what others take."""

    def take(self, asked: Any) -> Any:
        return super().take(asked + 8)


@dataclass(slots=True)
class Processes:
    """Engine processes that describe themselves and look for requests, as the probe's thread does."""

    rings: Path
    controls: dict[str, Control] = field(default_factory=dict)
    caps: dict[str, Cap] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, knob: str, cap: Cap | None = None, pid: int | None = None, answers: bool = True) -> None:
        facts = {f"control.{knob}": {"state": "visible", "reason": ""},
                 "control.draft_table": {"state": "blind", "reason": "no such thing"}}  # fmt: skip
        self.describe(name, facts, pid or os.getpid())
        if answers:
            made = Control(str(self.rings), name, 7, (self.rings / CONTROL_KEY).read_bytes())
            self.caps[name] = made.knobs[knob] = cap or Cap()
            self.controls[name] = made
            threading.Thread(target=self.look, args=(made,), daemon=True).start()

    def describe(self, name: str, facts: dict[str, Any], pid: int) -> None:
        text = {"state": "on", "pid": pid, "start_ns": 7, "engine": "vllm", "facts": facts}
        (self.rings / f"{name}.json").write_text(json.dumps(text))

    def look(self, control: Control) -> None:
        while not self.ended.is_set():
            control.look()
            time.sleep(0.01)

    def values(self) -> list[int]:
        return [cap.read() for _, cap in sorted(self.caps.items())]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.delenv("PELLUCID_CONTROL", raising=False)
    monkeypatch.setattr(verbs, "ANSWER_S", 0.5)
    put_control_key(tmp_path)
    made = Processes(tmp_path)
    yield made
    made.ended.set()


@pytest.fixture
def two(engine: Processes) -> Processes:
    engine.add("engine_core-1", "sequence_cap")
    for name in FRONTENDS:
        engine.add(name, "queued_requests_cap")
    return engine


def test_a_setting_is_taken_by_every_process_that_has_it(two: Processes) -> None:
    desk = open_desk(two.rings, "a test")
    lent = set_values(desk, {"queued_requests_cap": 4}, 30)
    assert [(c.process, c.old, c.new) for c in lent.changes] == [(name, 16, 4) for name in FRONTENDS]
    assert two.values() == [16, 4, 4]
    assert [(p.process, p.value, p.before, p.held_by) for p in status(desk) if p.knob == "queued_requests_cap"] == [
        (name, 4, 16, "a test") for name in FRONTENDS]  # fmt: skip
    assert {c.new for c in revert(desk).changes} == {16}
    assert two.values() == [16, 16, 16]
    assert not (two.rings / FOLDER / ASK).exists()


def test_what_one_process_refuses_is_taken_back_from_the_others(engine: Processes) -> None:
    engine.add(FRONTENDS[0], "queued_requests_cap")
    engine.add(FRONTENDS[1], "queued_requests_cap", Small())
    with pytest.raises(AskedWrongly, match=r"nothing of it is set\. frontend-2: must be a whole number from 1 to 16"):
        set_values(open_desk(engine.rings, "a test"), {"queued_requests_cap": 12}, 30)
    assert engine.values() == [16, 16]


def test_where_one_does_not_answer_it_is_named_and_nothing_is_set(engine: Processes) -> None:
    engine.add(FRONTENDS[0], "queued_requests_cap")
    engine.add(FRONTENDS[1], "queued_requests_cap", answers=False)
    with pytest.raises(Failed, match=r"no answer within 0\.5 s from frontend-2"):
        set_values(open_desk(engine.rings, "a test"), {"queued_requests_cap": 4}, 30)
    assert engine.values() == [16]


def test_one_that_is_dead_is_not_asked(engine: Processes) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    engine.add(FRONTENDS[0], "queued_requests_cap")
    engine.add(FRONTENDS[1], "queued_requests_cap", pid=int(ended.stdout), answers=False)
    assert len(set_values(open_desk(engine.rings, "a test"), {"queued_requests_cap": 4}, 30).changes) == 1


def test_the_engines_own_names_are_understood(two: Processes) -> None:
    set_values(open_desk(two.rings, "a test"), {"--max-num-active-seqs": 4}, 30)
    assert two.values() == [4, 16, 16]


@pytest.mark.parametrize(("knob", "says"), [
    ("max_num_seqs", "Downwards, sequence_cap does the same"), ("sequence_cup", "Did you mean sequence_cap"),
    ("draft_table", "no such thing"), ("block_size", "is no live setting of this engine. It has: queued_requests_cap"),
])  # fmt: skip
def test_what_cannot_be_set_is_refused_with_what_can(two: Processes, knob: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        set_values(open_desk(two.rings, "a test"), {knob: 4}, 30)


def test_one_at_a_time_holds_an_engine(two: Processes) -> None:
    first, second = open_desk(two.rings, "the first"), open_desk(two.rings, "the second")
    set_values(first, {"sequence_cap": 4}, 30)
    with pytest.raises(AskedWrongly, match="held by the first"):
        set_values(second, {"sequence_cap": 2}, 30)
    again = open_desk(two.rings, "the first, after a crash", holder=first.holder)
    set_values(again, {"sequence_cap": 3}, 30)
    assert {c.new for c in revert(again).changes} == {16}


@pytest.mark.slow
def test_a_lease_ends_by_itself_and_who_renews_too_late_is_told(two: Processes) -> None:
    desk = open_desk(two.rings, "a test")
    set_values(desk, {"sequence_cap": 4}, 0.3)
    renew(desk, 0.5)
    time.sleep(0.3)
    assert two.values()[0] == 4
    time.sleep(0.5)
    assert two.values()[0] == 16
    with pytest.raises(AskedWrongly, match="nothing is held"):
        renew(desk, 1)
    assert revert(desk).changes == ()


@pytest.mark.slow
def test_what_is_kept_is_undone_later_by_somebody_else(two: Processes) -> None:
    desk = open_desk(two.rings, "a test")
    set_values(desk, {"sequence_cap": 4}, 0.5)
    keep(desk)
    time.sleep(0.7)
    assert two.values() == [4, 16, 16]
    assert [(c.knob, c.new) for c in undo(open_desk(two.rings, "later")).changes] == [("sequence_cap", 16)]
    with pytest.raises(AskedWrongly, match="nothing was kept"):
        undo(desk)


CONTROLLER = """
import sys, time
from pathlib import Path
from pellucid.verbs.loop.live import open_desk, renew, set_values
desk = open_desk(Path(sys.argv[1]), "to be killed")
set_values(desk, {"sequence_cap": 4}, 1.0)
print("set", flush=True)
while True:
    time.sleep(0.2)
    renew(desk, 1.0)
"""


@pytest.mark.slow
def test_a_killed_controller_leaves_nothing_behind(two: Processes) -> None:
    child = subprocess.Popen([sys.executable, "-c", CONTROLLER, str(two.rings)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "set\n"
    time.sleep(1.3)
    assert two.values()[0] == 4         # renewed
    child.kill()
    child.communicate()
    time.sleep(1.3)
    assert two.values()[0] == 16
    assert status(open_desk(two.rings, "a test"))      # the lock went with it


def test_an_engine_without_live_control_says_how_to_turn_it_on(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="pellucid run --control"):
        open_desk(tmp_path, "a test", environ={})
    put_control_key(tmp_path)
    desk = open_desk(tmp_path, "a test", environ={})
    with pytest.raises(CannotAnswer, match="no running engine has a probe"):
        status(desk)
    Processes(tmp_path).describe("engine_core-1", {"step.times": {"state": "visible", "reason": ""}}, os.getpid())
    with pytest.raises(CannotAnswer, match="started without live control"):
        set_values(desk, {"sequence_cap": 4}, 30)
    reason = {"state": "blind", "reason": "PELLUCID_CONTROL: /k can be used by others"}
    Processes(tmp_path).describe("engine_core-1", {"control.sequence_cap": reason}, os.getpid())
    with pytest.raises(CannotAnswer, match="can be used by others"):
        set_values(desk, {"sequence_cap": 4}, 30)


def test_another_key_is_told_from_no_answer(two: Processes) -> None:
    (two.rings / CONTROL_KEY).write_bytes(bytes(32))
    with pytest.raises(CannotAnswer, match="another control key"):
        set_values(open_desk(two.rings, "a test"), {"sequence_cap": 4}, 30)
    assert two.values() == [16, 16, 16]


@pytest.mark.parametrize("lease_s", [0, -1, 601, float("nan")])
def test_a_lease_has_an_end(two: Processes, lease_s: float) -> None:
    with pytest.raises(AskedWrongly, match="at most 600 s"):
        set_values(open_desk(two.rings, "a test"), {"sequence_cap": 4}, lease_s)
