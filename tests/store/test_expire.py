from __future__ import annotations

import os
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import S_NS
from pellucid.store.expire import EVERY_NS, Expiry, Retention
from pellucid.store.schema import TABLES
from pellucid.store.write import Limits
from tests.store.writing import Hand, sealed, share, steps_of, writer

DAY_NS = 86_400 * S_NS


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.suffix in (".parquet", ".arrows"))


def test_raw_segments_go_when_they_are_old(tmp_path: Path) -> None:
    sealed(tmp_path, range(2), range(2, 4))
    expiry = Expiry(tmp_path, Retention(retain_s=86_400))
    expiry.tick(0)
    expiry.tick(DAY_NS)
    assert (steps_of(tmp_path), expiry.expired_count) == ([0, 1, 2, 3], 0)
    sealed(tmp_path, range(4, 6))
    expiry.tick(DAY_NS + EVERY_NS)
    assert (steps_of(tmp_path), expiry.expired_count) == ([4, 5], 2)


def test_the_oldest_raw_segments_go_until_the_run_is_small_enough(tmp_path: Path) -> None:
    paths = sealed(tmp_path, range(2), range(2, 4), range(4, 6))
    sizes = [p.stat().st_size for p in paths]
    Expiry(tmp_path, Retention(retain_bytes=sum(sizes) - 1)).tick(0)
    assert steps_of(tmp_path) == [2, 3, 4, 5]
    Expiry(tmp_path, Retention(retain_bytes=sum(sizes[1:]))).tick(0)
    assert steps_of(tmp_path) == [2, 3, 4, 5]


def test_tails_and_tables_that_are_not_raw_stay(tmp_path: Path) -> None:
    w = writer(tmp_path)
    for table in TABLES.values():
        w.append(table.name, (None,) * len(table.columns))
    w.close()
    w = writer(tmp_path)
    w.append("step_runs", share(9))
    w.flush()
    raw = tuple(f"{t.name}-" for t in TABLES.values() if t.raw)
    kept = {n for n in left(tmp_path) if not n.startswith(raw) or n.endswith(".arrows")}
    Expiry(tmp_path, Retention(retain_bytes=1)).tick(0)
    assert set(left(tmp_path)) == kept
    assert {"requests-000000.parquet", "step_runs-000001.arrows"} <= kept


def test_it_looks_once_a_minute(tmp_path: Path) -> None:
    expiry = Expiry(tmp_path, Retention(retain_bytes=1))
    expiry.tick(0)
    sealed(tmp_path, range(2))
    expiry.tick(EVERY_NS - 1)
    assert steps_of(tmp_path) == [0, 1]
    expiry.tick(EVERY_NS)
    assert steps_of(tmp_path) == []


def test_the_writer_expires_while_it_records(tmp_path: Path) -> None:
    clock = Hand()
    w = writer(tmp_path, clock, Limits(seal_rows=1, retention=Retention(retain_s=90)))
    for step in range(6):
        w.append("step_runs", share(step))
        w.flush()
        clock.now_ns += EVERY_NS
    assert steps_of(tmp_path) == [4, 5]


def test_the_settings_count_where_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed(tmp_path, range(2))
    monkeypatch.setenv("PELLUCID_RETAIN_BYTES", "1")
    writer(tmp_path).flush()
    assert steps_of(tmp_path) == []
    monkeypatch.setenv("PELLUCID_RETAIN_BYTES", "much")
    with pytest.raises(AskedWrongly, match="PELLUCID_RETAIN_BYTES='much' is not a positive number of bytes"):
        writer(tmp_path / "other")


def test_a_folder_that_does_not_let_go_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed(tmp_path, range(2))

    def refuse(_path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    expiry = Expiry(tmp_path, Retention(retain_bytes=1))
    expiry.tick(0)
    assert expiry.expired_count == 0


def test_nothing_goes_unless_asked(tmp_path: Path) -> None:
    sealed(tmp_path, range(2))
    Expiry(tmp_path, Retention()).tick(10**6 * DAY_NS)
    assert steps_of(tmp_path) == [0, 1]


def test_a_wall_clock_that_was_set_back_does_not_make_the_newest_segment_the_oldest(tmp_path: Path) -> None:
    paths = sealed(tmp_path, range(2), range(2, 4), range(4, 6))
    for path, time_s in zip(paths, (9_000, 9_001, 100), strict=True):
        os.utime(path, (time_s, time_s))
    Expiry(tmp_path, Retention(retain_bytes=sum(p.stat().st_size for p in paths) - 1)).tick(0)
    assert steps_of(tmp_path) == [2, 3, 4, 5]
