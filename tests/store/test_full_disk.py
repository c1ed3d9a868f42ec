"""A disk that is full and gets room again. A tiny tmpfs where we may mount one, else a limit on the size of files."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.store.read import open_run
from pellucid.store.write import Limits
from tests.store.writing import sealed, share, steps_of, writer

ROOM_BYTES = 1 << 20


@dataclass
class SmallDisk:
    folder: Path
    fill: Callable[[], None]
    make_room: Callable[[], None]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "pellucid-test", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield from _limited(tmp_path)
        return
    ballast = tmp_path / "ballast"
    try:
        yield SmallDisk(tmp_path / "run", lambda: _fill(ballast), ballast.unlink)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            return


def _limited(folder: Path) -> Iterator[SmallDisk]:
    """No mount allowed: writes beyond a file size fail with EFBIG once SIGXFSZ is ignored."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def set_bytes(soft: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, before[1]))

    try:
        yield SmallDisk(folder / "run", lambda: set_bytes(1), lambda: set_bytes(before[0]))
    finally:
        set_bytes(before[0])
        signal.signal(signal.SIGXFSZ, handler)


def test_nothing_sealed_is_lost_and_rows_wait_until_there_is_room(disk: SmallDisk) -> None:
    sealed(disk.folder, range(10))
    w = writer(disk.folder)
    w.append("step_runs", share(10))
    w.flush()
    disk.fill()
    for step in range(11, 2000):
        w.append("step_runs", share(step))
    w.flush()
    assert w.fault.endswith(f"in {disk.folder}") and w.lost_rows == 0
    assert steps_of(disk.folder) == list(range(11))
    disk.make_room()
    w.flush()
    assert w.fault == ""
    w.close()
    run = open_run(disk.folder)
    assert (steps_of(run), run.damaged, w.lost_rows) == (list(range(2000)), [], 0)


def test_a_disk_that_is_full_before_the_first_row_spoils_no_tail(disk: SmallDisk) -> None:
    w = writer(disk.folder)
    disk.fill()
    w.append("step_runs", share(0))
    w.flush()
    assert w.fault
    disk.make_room()
    w.flush()
    assert steps_of(disk.folder) == [0]
    w.append("step_runs", share(1))
    w.close()
    assert steps_of(disk.folder) == [0, 1]


def test_rows_beyond_the_limit_go_oldest_first_and_are_counted(disk: SmallDisk) -> None:
    w = writer(disk.folder, limits=Limits(max_pending_rows=100))
    disk.fill()
    for step in range(250):
        w.append("step_runs", share(step))
    w.flush()
    assert w.lost_rows == 150
    disk.make_room()
    w.close()
    assert steps_of(disk.folder) == list(range(150, 250))


def test_a_seal_without_room_leaves_the_tail_readable(disk: SmallDisk) -> None:
    w = writer(disk.folder, limits=Limits(seal_rows=500))
    for step in range(499):
        w.append("step_runs", share(step))
    w.flush()
    disk.fill()
    w.limits = Limits(seal_rows=1)
    w.flush()
    assert w.fault
    assert (steps_of(disk.folder), list(disk.folder.glob("*.tmp"))) == (list(range(499)), [])
    disk.make_room()
    w.flush()
    assert len(list(disk.folder.glob("step_runs-*.parquet"))) == 1
    assert steps_of(disk.folder) == list(range(499))


def test_closing_on_a_full_disk_counts_what_it_could_not_keep(disk: SmallDisk) -> None:
    w = writer(disk.folder)
    w.append("step_runs", share(0))
    w.flush()
    disk.fill()
    for step in range(1, 2000):
        w.append("step_runs", share(step))
    w.close()
    assert (w.lost_rows, steps_of(disk.folder)) == (1999, [0])
    disk.make_room()
    writer(disk.folder).close()     # the lock was let go


def test_the_disk_really_is_full(disk: SmallDisk) -> None:
    disk.folder.mkdir()
    disk.fill()
    with pytest.raises(OSError, match=r"No space left|File too large"):
        (disk.folder / "x").write_bytes(bytes(8192))
