"""The ring: whole records or counted losses, whatever the reader's pace and whenever the writer dies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pellucid_probe import ring as ring_module
from pellucid_probe.ring import HEADER_BYTES, SEGMENT_BYTES, RingError, RingReader, RingWriter, filesystem_of


@pytest.fixture
def shm() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def pair(shm: Path, segments: int = 4) -> tuple[RingWriter, RingReader]:
    path = str(shm / "engine_core-1.ring")
    return RingWriter(path, segments * SEGMENT_BYTES), RingReader(path)


def test_records_come_back_in_order_and_whole(shm: Path) -> None:
    writer, reader = pair(shm)
    wrote = [(kind, bytes([kind]) * kind) for kind in range(1, 200)]
    for record in wrote:
        writer.write(*record)
    assert reader.poll() == wrote
    assert (reader.lost_count, reader.torn_count) == (0, 0)


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=120), st.integers(1, 12))
def test_a_reader_that_keeps_up_loses_nothing(sizes: list[int], batch: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        writer, reader = pair(Path(folder))
        read = []
        for i, size in enumerate(sizes):
            writer.write(i + 1, i.to_bytes(4, "little") + b"x" * size)
            if i % batch == 0:
                read += reader.poll()
        read += reader.poll()
        assert [(kind, len(payload)) for kind, payload in read] == [(i + 1, s + 4) for i, s in enumerate(sizes)]
        assert reader.lost_count == 0


def test_a_reader_that_falls_behind_goes_on_at_a_record_and_counts_what_it_lost(shm: Path) -> None:
    writer, reader = pair(shm)
    for i in range(5000):
        writer.write(7, i.to_bytes(4, "little") + b"y" * 500)
    read = [int.from_bytes(payload[:4], "little") for _, payload in reader.poll()]
    assert read[-1] == 4999
    assert read == list(range(read[0], 5000))
    assert reader.lost_count >= read[0] > 0    # fillers at segment ends have sequence numbers too
    assert reader.torn_count == 0


def test_a_record_larger_than_a_segment_is_dropped_and_counted(shm: Path) -> None:
    writer, reader = pair(shm)
    writer.write(1, b"z" * SEGMENT_BYTES)
    writer.write(2, b"small")
    assert reader.poll() == [(2, b"small")]
    assert reader.dropped_count == 1


def test_a_damaged_record_is_skipped_and_counted_not_returned(shm: Path) -> None:
    writer, reader = pair(shm)
    writer.write(1, b"good")
    writer.write(2, b"will be damaged")
    with (shm / "engine_core-1.ring").open("r+b") as f:
        f.seek(HEADER_BYTES + 32 + 24 + 3)
        f.write(b"#")
    polls = [reader.poll() for _ in range(6)]
    assert polls[0] == [(1, b"good")]
    assert [r for poll in polls[1:] for r in poll] == []
    assert reader.torn_count == 1


def test_a_writer_killed_at_any_moment_leaves_whole_records(shm: Path) -> None:
    path = shm / "engine_core-1.ring"
    code = (
        "import sys; from pellucid_probe.ring import *\n"
        f"w = RingWriter({str(path)!r}, 4 * SEGMENT_BYTES)\n"
        "i = 0\nwhile True:\n    w.write(1, i.to_bytes(8, 'little') * 40); i += 1\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not path.exists() or path.stat().st_size < HEADER_BYTES:
            time.sleep(0.01)
        time.sleep(0.3)
        reader = RingReader(str(path))
        read = reader.poll()
        child.kill()
        child.wait()
        for _ in range(6):
            read += reader.poll()
    finally:
        child.kill()
    numbers = [int.from_bytes(p[:8], "little") for _, p in read]
    assert len(numbers) > 100
    assert numbers == sorted(set(numbers))
    assert all(p == p[:8] * 40 for _, p in read)


def test_a_folder_off_tmpfs_is_refused(tmp_path: Path) -> None:
    if filesystem_of(str(tmp_path)) == "tmpfs":
        pytest.fail("this test needs a temporary folder on a disk")
    with pytest.raises(RingError, match="not on tmpfs"):
        RingWriter(str(tmp_path / "r.ring"), SEGMENT_BYTES)


def test_a_tmpfs_too_small_is_refused_and_leaves_no_file(shm: Path) -> None:
    # More than it could ever hold is refused at once; a little more than is free would fill the machine's memory first.
    whole = os.statvfs(shm).f_blocks * os.statvfs(shm).f_frsize
    with pytest.raises(RingError, match="cannot allocate"):
        RingWriter(str(shm / "r.ring"), whole + (1 << 30))
    assert list(shm.iterdir()) == []


def test_another_file_is_not_taken_for_a_ring(shm: Path) -> None:
    path = shm / "engine_core-1.ring"
    path.write_bytes(b"x" * (HEADER_BYTES + 4 * SEGMENT_BYTES))
    with pytest.raises(RingError, match="not a ring"):
        RingReader(str(path))
    path.write_bytes(b"")
    with pytest.raises(RingError, match="too small"):
        RingReader(str(path))


def test_the_filesystem_of_a_missing_mount_table_entry_is_found_by_the_longest_mount() -> None:
    assert filesystem_of("/dev/shm") == "tmpfs"
    assert filesystem_of("/proc/self") == "proc"
    assert ring_module.filesystem_of("/dev/shm/no/such/folder") == "tmpfs"


def test_a_ring_appears_whole(shm: Path) -> None:
    """Under its name from the first moment with a header: a reader that polls the folder never finds half of one."""
    path = shm / "engine_core-1.ring"
    faults: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            try:
                RingReader(str(path)).close()
            except FileNotFoundError:
                continue
            except RingError as error:
                faults.append(str(error))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(20):
        RingWriter(str(path), 8 << 20)
        path.unlink()
    done.set()
    watcher.join()
    assert faults == []
