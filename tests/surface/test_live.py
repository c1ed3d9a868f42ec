"""`pellucid live` over a run that is being recorded, with toy processes in the engine's place."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.core.run import RunInfo, write_info
from pellucid.surface.cli import main
from pellucid.verbs.runs import LOCK
from pellucid.verbs.site import put_control_key
from tests.verbs.loop.test_live import Processes


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.setenv("PELLUCID_HOME", str(tmp_path / "home"))
    rings, folder = tmp_path / "rings", tmp_path / "home" / "runs" / "r1"
    rings.mkdir()
    folder.mkdir(parents=True)
    put_control_key(rings)
    write_info(folder, RunInfo("r1", 1, ["engine"], str(rings)))
    held = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    made = Processes(rings)
    made.add("engine_core-1", "sequence_cap")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield made
    for number, handler in handlers.items():
        signal.signal(number, handler)
    made.ended.set()
    os.close(held)


def test_what_there_is_is_listed(engine: Processes, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["live"]), engine.values()) == (0, [16])
    assert " ".join(capsys.readouterr().out.split()) == "sequence_cap 16 a whole number from 1 to 16 (engine_core-1)"
    assert main(["live", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["knob"], row["value"], row["left_ns"], row["held_by"]) == ("sequence_cap", 16, None, "")


def test_a_value_is_lent_and_given_back(engine: Processes, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "--set", "max_num_active_seqs=4", "--for", "300ms"]) == 0
    assert engine.caps["engine_core-1"].values == [16, 4, 16]
    assert "sequence_cap: 16 → 4 in engine_core-1" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code", "says"), [
    (["--set", "sequence_cap"], 2, "--set takes KNOB=VALUE"), (["--set", "sequence_cap=17"], 2, "from 1 to 16"),
    (["--set", "sequence_cap=x"], 2, "from 1 to 16"), (["--set", "colour=1"], 2, "no knob is called 'colour'"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(
    engine: Processes, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert main(["live", *words]) == code
    assert says in capsys.readouterr().err
    assert engine.caps["engine_core-1"].values == [16]
