"""Journals on a real disk: one writer, torn lines, edits, and what `trials` and `audit` say of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.clock import Anchor
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.tune import events as e
from pellucid.tune.loop import Desk, run
from pellucid.tune.state import State, fold
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.sessions import find_session, read_session, session_folders, writing
from pellucid.verbs.loop.trials import trials
from tests.tune.session import STARTED, World, better, fidelity, proposal

SESSION = "20261130-091500-a1b2"
A = proposal(("max_running_requests", 64), source="queue.sequence_cap_binding",
             claim=e.Claim("output_tokens_per_s", 0.1, 0.3))  # fmt: skip
B = proposal(("step_token_budget", 512))


def ticking() -> Callable[[], Anchor]:
    ticks = iter(range(1, 10_000))

    def now() -> Anchor:
        n = next(ticks)
        return Anchor(n * 1_000_000_000, 1_796_000_000_000_000_000 + n * 1_000_000_000)

    return now


def whole_session(home: Path, world: World, session: str = SESSION) -> State:
    with writing(home, session, ticking()) as (journal, torn):
        assert torn == 0

        def record(event: e.AnyEvent) -> int:
            at_ns = journal.record(event)
            world.entries = list(read_session(journal.folder).entries)
            return at_ns

        state = fold(State(), STARTED, record(STARTED))
        return run(state, Desk(world.perform, record, journal.state, lambda: state.last_ns))


def journal_of(home: Path, session: str = SESSION) -> Path:
    return home / "sessions" / session / "journal.jsonl"


def test_a_session_is_on_disk_as_it_was(tmp_path: Path) -> None:
    state = whole_session(tmp_path, World((A, B)))
    found = read_session(find_session(tmp_path, None))
    assert (found.state(), found.breaks, found.torn_bytes, found.running) == (state, (), 0, False)
    assert oct(journal_of(tmp_path).stat().st_mode & 0o777) == "0o600"


def test_trials_are_what_was_tried_with_claim_and_outcome(tmp_path: Path) -> None:
    whole_session(tmp_path, World((A, B), fidelity="blind"))
    found = trials(tmp_path, None)
    first, second = found.rows
    assert {k: first[k] for k in ("session", "trial", "candidate", "state", "speed", "fidelity", "why", "source",
                                  "claim_covered", "metric", "pairs_count")} == {
        "session": SESSION, "trial": 1, "candidate": "max_running_requests=64", "state": "rolled back",
        "speed": "better", "fidelity": "blind", "why": "fidelity: blind, 512 prompts",
        "source": "queue.sequence_cap_binding", "claim_covered": True, "metric": "output_tokens_per_s",
        "pairs_count": 12}  # fmt: skip
    assert [first[f"outcome{w}_ratio"] for w in ("", "_low", "_high")] == pytest.approx([0.2, 0.1, 0.3])
    assert first["duration_ns"] > 0 and second["claim_covered"] is None
    assert found.json()["units"]["duration_ns"] == "ns"
    assert found.claims == [{"source": "queue.sequence_cap_binding", "trials_count": 1, "covered_count": 1,
                             "mean_error_ratio": pytest.approx(0.0), "unmeasured_count": 0}]  # fmt: skip
    assert json.dumps(found.json())


def test_what_was_refused_waits_or_was_cut_off_is_a_row_too(tmp_path: Path) -> None:
    events = (STARTED, e.Observed("r", ""), e.Diagnosed("", []), e.Proposed((A, B, proposal()), True),
              e.Guarded(False, "memory", "14.0 GiB"), e.Guarded(True, "", "", way="beside"),
              e.TrialStarted(1, "beside", 0.001), better(1))  # fmt: skip
    with writing(tmp_path, SESSION, ticking()) as (journal, _):
        for event in events:
            journal.record(event)
        assert [r["state"] for r in trials(tmp_path, None).rows] == ["running", "refused", "waiting"]
    rows = trials(tmp_path, None).rows
    assert [(r["candidate"], r["state"], r["why"]) for r in rows] == [
        ("step_token_budget=512", "cut off", ""), ("max_running_requests=64", "refused", "memory: 14.0 GiB"),
        ("nothing changed", "waiting", "")]  # fmt: skip
    assert set(rows[0]) == set(rows[1]) == set(rows[2])


def test_a_torn_line_is_told_and_the_next_writer_takes_it_off(tmp_path: Path) -> None:
    whole_session(tmp_path, World((A,)))
    with journal_of(tmp_path).open("ab") as f:
        f.write(b'{"hash":"12')
    found = audit(tmp_path, None)
    assert found.whole and "torn after 11 bytes" in found.notes[0]
    with writing(tmp_path, SESSION, ticking()) as (_, torn):
        assert torn == 11
    assert audit(tmp_path, None).notes == ()


def test_there_is_one_writer(tmp_path: Path) -> None:
    with writing(tmp_path, SESSION, ticking()) as (journal, _):
        journal.record(STARTED)
        assert read_session(find_session(tmp_path, None)).running
        with pytest.raises(Failed, match="worked on by another process"), writing(tmp_path, SESSION, ticking()):
            pass
        assert "a process is working on it" in audit(tmp_path, None).notes


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_changed_byte_is_found_and_nothing_is_added_to_it(tmp_path: Path, place: float) -> None:
    whole_session(tmp_path, World((A,)))
    data = bytearray(journal_of(tmp_path).read_bytes())
    data[int(len(data) * place)] ^= 1
    journal_of(tmp_path).write_bytes(bytes(data))
    assert not audit(tmp_path, None).whole
    with pytest.raises(Failed, match=f"pellucid audit --session {SESSION}"), writing(tmp_path, SESSION, ticking()):
        pass
    assert "is broken in line" in trials(tmp_path, None).notes[0]


def test_an_end_that_was_cut_off_is_found(tmp_path: Path) -> None:
    whole_session(tmp_path, World((A,)))
    lines = journal_of(tmp_path).read_bytes().splitlines(keepends=True)
    journal_of(tmp_path).write_bytes(b"".join(lines[:-2]))
    (fault,) = audit(tmp_path, None).breaks
    assert "the end was cut off" in fault


def test_a_chain_that_holds_and_cannot_have_been_is_found(tmp_path: Path) -> None:
    with writing(tmp_path, SESSION, ticking()) as (journal, _):
        journal.record(STARTED)
        journal.record(e.Kept(1, "by hand"))
    (fault,) = audit(tmp_path, None).breaks
    assert "entry 1 of the journal cannot follow" in fault
    assert trials(tmp_path, None).rows == [] and "cannot follow" in trials(tmp_path, None).notes[0]


def test_a_disk_that_refuses_leaves_nothing_behind_half_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path, SESSION, ticking()) as (journal, _):
        journal.record(STARTED)
        write = os.write
        monkeypatch.setattr("os.write", lambda fd, text: write(fd, text[:20]))
        with pytest.raises(Failed, match="the disk took 20 of"):
            journal.record(e.Observed("r", ""))
        monkeypatch.undo()
        with pytest.raises(Failed, match="could not be written before"):
            journal.record(e.Observed("r", ""))
    found = read_session(find_session(tmp_path, None))
    assert (len(found.entries), found.torn_bytes, found.breaks) == (1, 20, ())


@pytest.mark.parametrize("call", range(0, 38, 3))
def test_a_ctrl_c_in_the_middle_of_writing_leaves_a_chain_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    real, calls = os.fsync, iter(range(1000))

    def fsync(fd: int) -> None:
        real(fd)
        if next(calls) == call + 4:     # after the first event: before it there is no loop
            raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fsync)
    state = whole_session(tmp_path, World((A, B)))
    assert state.finished is not None
    assert state.finished.word == "interrupted"
    assert audit(tmp_path, None).whole
    assert read_session(find_session(tmp_path, None)).state() == state


def test_sessions_are_found_by_a_unique_beginning(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="nothing was tried"):
        find_session(tmp_path, None)
    for name in ("20261130-1", "20261201-1", "20261201-2"):
        with writing(tmp_path, name, ticking()) as (journal, _):
            journal.record(STARTED)
    assert [f.name for f in session_folders(tmp_path)] == ["20261201-2", "20261201-1", "20261130-1"]
    assert find_session(tmp_path, "202611").name == "20261130-1"
    with pytest.raises(AskedWrongly, match="2 sessions start so"):
        find_session(tmp_path, "202612")


WRITER = """
import sys, time
from pathlib import Path
from pellucid.core.clock import anchor_now
from pellucid.tune.events import Observed, Diagnosed, Proposed
from pellucid.verbs.loop.sessions import writing
from tests.tune.session import STARTED
with writing(Path(sys.argv[1]), sys.argv[2], anchor_now) as (journal, _):
    journal.record(STARTED)
    journal.record(Observed("r", ""))
    journal.record(Diagnosed("x" * 4000, []))
    while True:
        journal.record(Proposed((), False))
"""


@pytest.mark.slow
def test_kill_9_in_the_middle_of_writing_loses_at_most_the_line_it_was_in(tmp_path: Path) -> None:
    for after_s in (0.01, 0.03, 0.05):
        name = f"k{after_s}"
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name])
        while not journal_of(tmp_path, name).exists() or journal_of(tmp_path, name).stat().st_size < 6000:
            time.sleep(0.005)
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = audit(tmp_path, name)
        assert found.whole and len(found.rows) >= 4
        with writing(tmp_path, name, ticking()) as (journal, _):
            journal.record(e.Resumed(0))
        assert audit(tmp_path, name).whole


def test_fidelity_is_in_the_log_with_its_evidence(tmp_path: Path) -> None:
    told: dict[str, Any] = {"tasks": [{"task": "chat", "p": 0.4}]}
    judged = e.FidelityJudged(1, fidelity(1).word, "512 prompts", told)
    with writing(tmp_path, SESSION, ticking()) as (journal, _):
        for event in (STARTED, e.Observed("r", ""), e.Diagnosed("", []), e.Proposed((A,), True),
                      e.Guarded(True, "", "", way="beside"), e.TrialStarted(1, "beside", 0.001), better(1), judged):
            journal.record(event)
    row = audit(tmp_path, None).rows[-1]
    assert (row["kind"], row["says"], row["payload"]["evidence"]) == (
        "fidelityjudged", "trial 1: same: 512 prompts", told)  # fmt: skip
