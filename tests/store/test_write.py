"""The writer: append, flush, seal, one at a time."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from pellucid.core.errors import Failed
from pellucid.core.units import S_NS
from pellucid.store.schema import TABLES
from pellucid.store.write import LOCK_S, Limits, lock
from tests.store.writing import Hand, sealed, share, steps_of, writer


def names(folder: Path, kind: str) -> list[str]:
    return sorted(p.name for p in folder.glob(f"step_runs-*.{kind}"))


def test_a_row_is_read_once_it_is_flushed(tmp_path: Path) -> None:
    w = writer(tmp_path)
    w.append("step_runs", share(1))
    assert steps_of(tmp_path) == []
    w.flush()
    assert steps_of(tmp_path) == [1]


def test_a_tick_flushes_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    clock = Hand()
    w = writer(tmp_path, clock, Limits(flush_s=0.5))
    w.tick()
    w.append("step_runs", share(1))
    clock.now_ns += S_NS // 2 - 1
    w.tick()
    assert steps_of(tmp_path) == []
    clock.now_ns += 1
    w.tick()
    assert steps_of(tmp_path) == [1]


def test_a_full_tail_becomes_a_segment_and_the_next_one_opens(tmp_path: Path) -> None:
    w = writer(tmp_path, limits=Limits(seal_rows=3))
    for step in range(4):
        w.append("step_runs", share(step))
        w.flush()
    assert (names(tmp_path, "parquet"), names(tmp_path, "arrows")) == (
        ["step_runs-000000.parquet"], ["step_runs-000001.arrows"])  # fmt: skip
    assert steps_of(tmp_path) == [0, 1, 2, 3]


def test_an_old_tail_becomes_a_segment(tmp_path: Path) -> None:
    clock = Hand()
    w = writer(tmp_path, clock, Limits(seal_s=60))
    w.append("step_runs", share(1))
    w.flush()
    clock.now_ns += 60 * S_NS
    w.flush()
    assert names(tmp_path, "parquet") == ["step_runs-000000.parquet"]
    assert names(tmp_path, "arrows") == []


def test_closing_seals_and_leaves_no_tail(tmp_path: Path) -> None:
    sealed(tmp_path, range(3))
    assert names(tmp_path, "arrows") == []
    assert steps_of(tmp_path) == [0, 1, 2]


def test_a_later_recorder_goes_on_after_the_last_number(tmp_path: Path) -> None:
    assert [p.name for p in sealed(tmp_path, range(2), range(2, 4))] == [
        "step_runs-000000.parquet", "step_runs-000001.parquet"]  # fmt: skip
    assert steps_of(tmp_path) == [0, 1, 2, 3]


def test_every_table_keeps_nulls_and_values(tmp_path: Path) -> None:
    w = writer(tmp_path)
    for table in TABLES.values():
        w.append(table.name, (None,) * len(table.columns))
    w.close()
    assert steps_of(tmp_path) == [None]


@pytest.mark.parametrize("bad", [("x",), (*share(2)[:-1], "decode", 9), ("p", "seven", 2, 2, 1, 2, 1, 0, "decode"),
                                 ("p", 2**70, 2, 2, 1, 2, 1, 0, "decode")])  # fmt: skip
def test_a_row_that_does_not_fit_is_left_out_and_counted(tmp_path: Path, bad: tuple[object, ...]) -> None:
    w = writer(tmp_path)
    for row in (share(1), bad, share(3)):
        w.append("step_runs", row)
    w.close()
    assert (steps_of(tmp_path), w.lost_rows, w.fault) == ([1, 3], 1, "")


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    first = writer(tmp_path)
    with pytest.raises(Failed, match=r"another recorder is at work in .* One at a time"):
        writer(tmp_path)
    first.append("step_runs", share(1))
    first.close()
    writer(tmp_path).close()
    assert steps_of(tmp_path) == [1]


def test_a_passing_look_at_the_lock_does_not_refuse_a_recorder(tmp_path: Path) -> None:
    path = tmp_path / "recorder.lock"
    look, own = (os.open(path, os.O_CREAT | os.O_RDWR) for _ in range(2))
    fcntl.flock(look, fcntl.LOCK_SH)
    threading.Timer(LOCK_S / 4, os.close, (look,)).start()
    start = time.monotonic()
    lock(own, tmp_path)
    assert time.monotonic() - start >= LOCK_S / 8
    os.close(own)


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="Set PELLUCID_HOME to a writable folder"):
        writer(tmp_path / "file" / "run")
