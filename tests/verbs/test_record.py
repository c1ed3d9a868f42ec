"""The sidecar: what it refuses, when it stops, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.verbs.record import RecordInto, any_of, record, stop_after, stop_at_exit_of


def rings(tmp_path: Path) -> Path:
    (tmp_path / "rings").mkdir()
    return tmp_path / "rings"


def test_a_run_is_made_under_home_and_says_where_it_comes_from(tmp_path: Path) -> None:
    where = rings(tmp_path)
    folder = record(where, RecordInto(tmp_path / "home"), lambda: True)
    assert folder.parent == tmp_path / "home" / "runs"
    info = json.loads((folder / "run.json").read_text())
    assert (info["run_id"], info["source"], info["command"]) == (folder.name, str(where), [])
    assert (where / "key").read_bytes() == (tmp_path / "home" / "key").read_bytes()


def test_a_run_that_has_been_made_keeps_its_description(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    record(rings(tmp_path), RecordInto(tmp_path / "home", tmp_path / "run"), lambda: True)
    assert (tmp_path / "run" / "run.json").read_text() == "{}"


def test_a_folder_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="PELLUCID_DIR="):
        record(tmp_path / "nowhere", RecordInto(tmp_path), lambda: True)


def test_a_second_recorder_on_the_same_rings_is_refused(tmp_path: Path) -> None:
    where, seen = rings(tmp_path), list[str]()

    def second() -> bool:
        with pytest.raises(Failed) as refused:
            record(where, RecordInto(tmp_path / "other"), lambda: True)
        seen.append(str(refused.value))
        return True

    record(where, RecordInto(tmp_path / "home"), second)
    assert seen[0].startswith("another recorder is at work")


def test_an_unwritable_home_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="Set PELLUCID_HOME to a writable folder"):
        record(rings(tmp_path), RecordInto(tmp_path / "file" / "home"), lambda: True)


def test_it_stops_when_its_time_is_over_and_not_before() -> None:
    now = [100]
    stop = any_of(lambda: False, stop_after(50, lambda: now[0]))
    now[0] = 149
    assert not stop()
    now[0] = 150
    assert stop()


def test_it_stops_a_little_after_the_engine_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    at_once, later = stop_at_exit_of(child.pid, grace_s=0.0), stop_at_exit_of(child.pid, grace_s=60.0)
    assert not at_once()
    child.communicate(b"\n")
    assert at_once() and not later()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pellucid.surface.cli", "record", str(rings(tmp_path)), "--for", "60s"]
    environ = {**os.environ, "PELLUCID_HOME": str(tmp_path / "home")}
    recorder = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
    assert recorder.stderr is not None and "recording" in recorder.stderr.readline()
    recorder.send_signal(number)
    _, err = recorder.communicate(timeout=30)
    assert (recorder.returncode, err.startswith("pellucid: recorded ")) == (0, True)
