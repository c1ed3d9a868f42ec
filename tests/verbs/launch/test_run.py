"""The launcher, with a plain child in the engine's place: signals, exit codes, and trouble with recording.

What the recorder writes is tested with its own rings; here it only has to be there, end, or die.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pellucid.collect.vllm.launch import extend_environment

WAIT_S = 30.0
pytestmark = pytest.mark.slow

COUNTS_SIGNALS = """
import os, signal, sys, time
seen = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda n, frame: seen.append(n))
print("up", flush=True)
while len(seen) < int(sys.argv[1]):
    time.sleep(0.01)
time.sleep(0.7)
print("seen", *seen, flush=True)
sys.exit(40 + len(seen))
"""


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


@pytest.fixture
def environ(tmp_path: Path, shm: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PELLUCID", "VLLM"))}
    return {**kept, "PELLUCID_HOME": str(tmp_path / "home"), "PELLUCID_SHM": str(shm)}


def launch(environ: Mapping[str, str], *command: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pellucid.surface.cli", "run", *options, "--", *command],
        env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *args)


def outcome(run: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = run.communicate(timeout=WAIT_S)
    return run.returncode, out, err


def until(found: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def recorders(home: Path) -> list[int]:
    """Recorders of this test's home, by their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"record" in words and str(home).encode() in words:
            found.append(int(path.parent.name))
    return found


def test_output_input_and_exit_code_are_the_engines(environ: dict[str, str], shm: Path) -> None:
    run = launch(environ, *python("import sys; print('out', input()); print('err', file=sys.stderr); sys.exit(9)"))
    out, err = run.communicate("hello\n", timeout=WAIT_S)
    assert (run.returncode, out) == (9, "out hello\n")
    assert err.startswith("err\n")
    assert list(shm.iterdir()) == []


def test_the_engine_finds_a_private_probe_folder_with_the_sites_key(environ: dict[str, str], tmp_path: Path) -> None:
    code = "import os; d = os.environ['PELLUCID_DIR']; print(oct(os.stat(d).st_mode), open(d + '/key', 'rb').read().hex())"  # noqa: E501
    _, out, _ = outcome(launch(environ, *python(code)))
    assert out.split() == ["0o40700", (tmp_path / "home" / "key").read_bytes().hex()]


def test_an_engine_ended_by_a_signal_gives_a_shells_code(environ: dict[str, str]) -> None:
    assert outcome(launch(environ, *python("import os; os.kill(os.getpid(), 9)")))[0] == 137


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_reaches_the_engine_once(environ: dict[str, str], number: signal.Signals) -> None:
    run = launch(environ, *python(COUNTS_SIGNALS, "1"))
    assert run.stdout is not None and run.stdout.readline() == "up\n"
    run.send_signal(number)
    code, out, _ = outcome(run)
    assert (code, out) == (41, f"seen {int(number)}\n")


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def test_ctrl_c_reaches_the_engine_once_and_a_second_one_again(
    environ: dict[str, str], tmp_path: Path, terminal: tuple[int, int]
) -> None:
    master, slave = terminal

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    run = subprocess.Popen(
        [sys.executable, "-m", "pellucid.surface.cli", "run", "--", *python(COUNTS_SIGNALS, "2")],
        env=environ, stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True, preexec_fn=own_terminal,
    )  # fmt: skip
    seen = b""
    for typed in (b"\x03", b"\x03"):
        while b"up" not in seen:
            seen += os.read(master, 1024)
        until(lambda: recorders(tmp_path / "home"))
        os.write(master, typed)
        time.sleep(0.2)
    run.communicate(timeout=WAIT_S)
    while b"seen" not in seen or not seen.endswith(b"\n"):
        seen += os.read(master, 1024)
    assert run.returncode == 42
    assert b"seen 2 2\r\n" in seen
    assert recorders(tmp_path / "home") == []


def test_an_engine_that_ends_before_it_served_is_said_in_one_line(environ: dict[str, str], tmp_path: Path) -> None:
    code, _, err = outcome(launch(environ, *python("raise SystemExit(3)")))
    folder = next((tmp_path / "home" / "runs").iterdir())
    assert code == 3
    assert re.fullmatch(rf"pellucid: the engine ended with code 3 before it served.*{folder}.*\n", err)


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_start_leaves_nothing(
    environ: dict[str, str], tmp_path: Path, shm: Path, program: str, code: int
) -> None:
    returned, _, err = outcome(launch(environ, program))
    assert (returned, f"cannot start {program}" in err) == (code, True)
    assert list(shm.iterdir()) == list((tmp_path / "home" / "runs").iterdir()) == []


@pytest.mark.parametrize("setting", ["PELLUCID_HOME", "PELLUCID_SHM"])
def test_an_unwritable_folder_does_not_stop_the_engine(environ: dict[str, str], tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("")
    command = python("import os, sys; sys.exit(5 if 'PELLUCID_DIR' not in os.environ else 6)")
    code, _, err = outcome(launch({**environ, setting: str(tmp_path / "file" / "in")}, *command))
    assert (code, "nothing is recorded: " in err) == (5, True)


def test_a_recorder_that_dies_is_said_and_the_engine_runs_on(environ: dict[str, str], tmp_path: Path) -> None:
    run = launch(environ, *python("print('up', flush=True); print(input())"))
    assert run.stdout is not None and run.stderr is not None
    until(lambda: recorders(tmp_path / "home"))
    os.kill(recorders(tmp_path / "home")[0], signal.SIGKILL)
    assert "the recorder ended with code -9" in run.stderr.readline()
    out, _ = run.communicate("served\n", timeout=WAIT_S)
    assert (run.returncode, out) == (0, "up\nserved\n")


def test_a_probe_that_stays_off_is_said_with_its_reason(environ: dict[str, str]) -> None:
    code = """if True:
        import json, os, time
        with open(os.environ["PELLUCID_DIR"] + "/worker-7.json", "w") as f:
            json.dump({"role": "worker", "pid": 7, "state": "off", "reason": "no room for 8 MiB", "facts": {}}, f)
    """
    _, _, err = outcome(launch(environ, *python(code)))
    assert "the probe stays off in worker-7: no room for 8 MiB" in err


def test_two_runs_at_once_are_two_recordings(environ: dict[str, str], tmp_path: Path, shm: Path) -> None:
    both = [launch(environ, *python("import os; print(os.environ['PELLUCID_DIR']); input()")) for _ in range(2)]
    folders = {run.stdout.readline() for run in both if run.stdout}
    assert len(folders) == 2
    assert [run.communicate("\n", timeout=WAIT_S) and run.returncode for run in both] == [0, 0]
    assert len(list((tmp_path / "home" / "runs").iterdir())) == 2
    assert list(shm.iterdir()) == []


def test_a_given_folder_is_used_and_left(environ: dict[str, str], tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    run = launch(environ, *python("import os; print(os.environ['PELLUCID_DIR'])"), options=("--dir", str(given)))
    assert outcome(run)[1] == f"{given}\n"
    assert (given / "key").exists()


def test_a_recorder_goes_on_until_the_engine_ends_when_the_launcher_is_killed(
    environ: dict[str, str], tmp_path: Path
) -> None:
    run = launch(environ, *python("import os; print(os.getpid(), flush=True); input()"))
    assert run.stdout is not None and run.stdin is not None
    engine = int(run.stdout.readline())
    until(lambda: recorders(tmp_path / "home"))
    run.kill()
    run.wait(WAIT_S)
    time.sleep(0.3)
    assert recorders(tmp_path / "home")
    os.kill(engine, signal.SIGTERM)
    until(lambda: not recorders(tmp_path / "home"))
    run.communicate()


def test_plugins_are_extended_only_where_the_user_named_some() -> None:
    assert extend_environment({"A": "1"}) == {"A": "1"}
    assert extend_environment({"VLLM_PLUGINS": ""}) == {"VLLM_PLUGINS": "pellucid"}
    assert extend_environment({"VLLM_PLUGINS": "a,b"}) == {"VLLM_PLUGINS": "a,b,pellucid"}
    assert extend_environment({"VLLM_PLUGINS": "pellucid,b"}) == {"VLLM_PLUGINS": "pellucid,b"}


CONTROLLED = """
import os, stat
key = os.environ.get("PELLUCID_CONTROL")
print(key and (os.path.getsize(key), oct(stat.S_IMODE(os.stat(key).st_mode))))
os.mkdir(os.environ["PELLUCID_DIR"] + "/control")
open(os.environ["PELLUCID_DIR"] + "/control/engine_core-1.audit.jsonl", "w").write("{}")
"""


@pytest.mark.parametrize(("options", "key"), [((), "None"), (("--control",), "(32, '0o600')")])
def test_live_control_is_off_unless_asked_for_and_its_audit_stays_with_the_run(
    environ: dict[str, str], options: tuple[str, ...], key: str
) -> None:
    code, out, _ = outcome(launch(environ, *python(CONTROLLED), options=options))
    assert (code, out.strip()) == (0, key)
    (kept,) = Path(environ["PELLUCID_HOME"]).glob("runs/*/control/*")
    assert (kept.name, kept.read_text()) == ("engine_core-1.audit.jsonl", "{}")
