"""kill -9 of a writer, at many moments: sealed segments whole, flushed rows there, nothing invented."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid.store.read import open_run
from tests.store.writing import share, steps_of, writer

pytestmark = pytest.mark.slow

# Says each number only after it was flushed. Seals every fifty rows, so kills fall into seals too.
WRITER = """
import sys
from pathlib import Path
from pellucid.store.write import Limits
from tests.store.writing import share, writer

w = writer(Path(sys.argv[1]), limits=Limits(seal_rows=50))
for step in range(1_000_000):
    w.append("step_runs", share(step))
    w.flush()
    print(step, flush=True)
"""


def killed(folder: Path, after_s: float) -> int:
    """Runs a writer, kills it some time after its first flush; returns the last step it said was flushed."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        said = first + process.stdout.read()
    return int(said[: said.rindex("\n")].split("\n")[-1])    # whole lines only


def test_what_was_flushed_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    pick = random.Random(7)
    for n in range(4):
        folder = tmp_path / str(n)
        last = killed(folder, pick.uniform(0, 0.25))
        run = open_run(folder)
        steps = steps_of(run)
        assert steps == list(range(len(steps)))
        assert last < len(steps) <= last + 2
        assert run.damaged == []


def test_a_killed_run_can_be_gone_on_with(tmp_path: Path) -> None:
    w = writer(tmp_path)
    w.append("step_runs", share(0))
    w.flush()
    (tmp_path / "step_runs-000000.tmp").write_bytes(b"half a segment")
    w.append("step_runs", share(1))      # not flushed: lost with the process
    os.close(w._lock_fd)                 # as the kernel does for a dead process
    after = writer(tmp_path)
    after.append("step_runs", share(2))
    after.close()
    assert steps_of(tmp_path) == [0, 2]
