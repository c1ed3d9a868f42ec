"""`kill -9` of the recorder and of the engine, amid traffic: the engine serves on, nothing sealed is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pellucid.core.settings import setting
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import STEP_LAWS, broken
from pellucid.testing.engine import Engine, members, stop
from pellucid.testing.traffic import Ask, Reply, send
from tools.recording import launch, pellucid, serve
from tools.traffic.prompts import tokens

FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "8")
FLUSH_S = float(setting("flush_s", {}))


@dataclass(slots=True)
class Traffic:
    """Requests in the background."""

    url: str
    model: str
    asks: list[Ask]
    replies: list[Reply] = field(default_factory=list)
    thread: threading.Thread | None = None

    def begin(self) -> None:
        self.thread = threading.Thread(target=lambda: self.replies.extend(send(self.url, self.model, self.asks)))
        self.thread.start()

    def end(self) -> list[Reply]:
        assert self.thread is not None
        self.thread.join()
        return self.replies


def steady(seconds: float, name: str) -> list[Ask]:
    pick = random.Random(5)
    return [Ask(n / 4, tokens(pick, 20), 24, request_id=f"{name}-{n}") for n in range(int(seconds * 4))]


def recorder(rings: Path, folder: Path, home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        pellucid("record", str(rings), "--run-folder", str(folder), "--home", str(home)),
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@dataclass(slots=True)
class Killed:
    """What was left after the first recorder was killed and a second one took over."""

    first: RunReader
    second: RunReader
    killed_ns: int
    replies: list[Reply]
    third: subprocess.CompletedProcess[bytes]     # tried while the second was at work


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    home = tmp_path_factory.mktemp("kills")
    rings = Path(mkdtemp(prefix="pellucid-test-", dir="/dev/shm"))
    engine, _ = launch("tiny-dense", FLAGS, home / "engine.log", env={"PELLUCID_DIR": str(rings)})
    try:
        yield kill_the_recorder(engine, rings, home)
    finally:
        stop(engine)
        for path in rings.iterdir():
            path.unlink()
        rings.rmdir()


def kill_the_recorder(engine: Engine, rings: Path, home: Path) -> Killed:
    traffic = Traffic(engine.url, "tiny-dense", steady(16, "kept"))
    first = recorder(rings, home / "first", home)
    traffic.begin()
    time.sleep(6)
    first.send_signal(signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    first.communicate()
    time.sleep(2)
    second = recorder(rings, home / "second", home)
    time.sleep(4)
    third = subprocess.run(
        pellucid("record", str(rings), "--run-folder", str(home / "third")), capture_output=True, check=False
    )
    replies = traffic.end()
    time.sleep(1.5)
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate()
    assert second.returncode == 0, said
    return Killed(open_run(home / "first"), open_run(home / "second"), killed_ns, replies, third)


def test_the_engine_answers_all_while_its_recorder_dies(killed: Killed) -> None:
    assert [r.error for r in killed.replies if not r.ok or r.output_tokens != 24] == []


def test_a_killed_recorder_loses_no_more_than_it_had_not_written(killed: Killed) -> None:
    """Rows wait a second for the other processes' view of a step, then at most the flush interval."""
    last_ns = killed.first.one("SELECT max(end_ns) AS ns FROM steps")["ns"]
    hold_s, cycle_s = 1.0, 0.5
    assert killed.first.damaged == []
    assert killed.killed_ns - last_ns < (hold_s + FLUSH_S + cycle_s) * 1e9


def test_what_a_killed_recorder_wrote_adds_up(killed: Killed) -> None:
    assert broken(killed.first, STEP_LAWS) == {}


def test_a_second_recorder_goes_on(killed: Killed) -> None:
    """It finds in the rings what happened while nobody recorded, and all that follows."""
    rows = killed.second.rows("SELECT request_id, output_tokens FROM requests WHERE finish_reason = 'length'")
    after = {r.ask.request_id for r in killed.replies if r.end_ns > killed.killed_ns}
    assert after <= {row["request_id"].removeprefix("cmpl-").removesuffix("-0") for row in rows}
    assert {row["output_tokens"] for row in rows} == {24}
    assert broken(killed.second) == {}


def test_two_recorders_on_one_engine_are_refused(killed: Killed) -> None:
    assert killed.third.returncode == 1
    assert b"another recorder is at work" in killed.third.stderr


def test_a_killed_engine_leaves_a_whole_recording(tmp_path: Path) -> None:
    served = serve("tiny-dense", FLAGS, tmp_path, tmp_path / "engine.log")
    try:
        traffic = Traffic(served.url, served.model, [Ask(0, "t5 t6", 2000, request_id=f"cut-{n}") for n in range(4)])
        traffic.begin()
        time.sleep(4)
        launcher = served.engine.pid
        for member in members(served.engine):
            if member.pid != launcher:
                os.kill(member.pid, signal.SIGKILL)
        killed_ns = time.monotonic_ns()
        replies = traffic.end()
        code = served.engine.process.wait(timeout=90)
    finally:
        served.end()
    run = open_run(served.folder())
    assert code == 128 + signal.SIGKILL
    assert not any(reply.ok and reply.finish_reason for reply in replies)
    assert broken(run, STEP_LAWS) == {}
    assert run.damaged == []
    assert killed_ns - run.one("SELECT max(end_ns) AS ns FROM steps")["ns"] < 1e9, "steps near the end were lost"
    rows = run.rows("SELECT request_id, finish_reason, output_tokens FROM requests WHERE request_id LIKE 'cmpl-cut%'")
    assert {(r["finish_reason"], r["output_tokens"] > 0) for r in rows} == {(None, True)}
    assert len(rows) == 4
