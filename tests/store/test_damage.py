"""Files cut, flipped, gone, or of another schema: what is whole is read, the rest is reported."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.store.read import GONE, open_run
from pellucid.store.schema import STEP_RUNS, TABLES, Table
from pellucid.store.segment import CHECKSUMS, misfit, read_tail
from tests.store.writing import sealed, share, steps_of, writer

pytestmark = pytest.mark.slow


def test_a_tail_cut_anywhere_in_its_last_batch_yields_the_batches_before(tmp_path: Path) -> None:
    w = writer(tmp_path)
    path = tmp_path / "step_runs-000000.arrows"
    states = []
    for step in range(3):
        w.append("step_runs", share(step))
        w.flush()
        states.append(path.read_bytes())
    _, whole, data = states
    assert len(data) > len(whole) > 0
    for end in range(len(whole), len(data)):
        path.write_bytes(data[:end])
        rows, fault = read_tail(path, STEP_RUNS.arrow())
        assert rows.column("first_step").to_pylist() == [0, 1], end
        assert (fault == "") == (end == len(whole)), end


@pytest.mark.parametrize("end", [0, 1, 7, 8, 40])
def test_a_tail_cut_in_its_head_has_no_rows_and_says_so(tmp_path: Path, end: int) -> None:
    w = writer(tmp_path)
    w.append("step_runs", share(0))
    w.flush()
    path = tmp_path / "step_runs-000000.arrows"
    path.write_bytes(path.read_bytes()[:end])
    run = open_run(tmp_path)
    assert steps_of(run) == []
    assert [d.path for d in run.damaged] == ([path] if end else [])


def test_a_tail_with_the_number_of_a_segment_is_a_leftover(tmp_path: Path) -> None:
    w = writer(tmp_path)
    w.append("step_runs", share(0))
    w.flush()
    tail = tmp_path / "step_runs-000000.arrows"
    data = tail.read_bytes()
    w.close()
    tail.write_bytes(data)
    assert steps_of(tmp_path) == [0]


def test_a_tail_that_does_not_read_to_its_end_is_never_deleted(tmp_path: Path) -> None:
    w = writer(tmp_path)
    for step in range(2):
        w.append("step_runs", share(step))
        w.flush()
    path = tmp_path / "step_runs-000000.arrows"
    path.write_bytes(path.read_bytes()[:-5])
    w.append("step_runs", share(2))
    w.close()
    assert path.exists() and not (tmp_path / "step_runs-000000.parquet").exists()
    assert steps_of(tmp_path)[:1] == [0]


def test_any_flipped_bit_of_a_segment_is_noticed_and_the_others_are_read(tmp_path: Path) -> None:
    bad, _good = sealed(tmp_path, range(100), range(100, 150))
    data = bad.read_bytes()
    pick = random.Random(3)
    places = [0, len(data) - 1, *(pick.randrange(len(data)) for _ in range(12))]
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << pick.randrange(8)
        bad.write_bytes(flipped)
        run = open_run(tmp_path)
        assert steps_of(run) == list(range(100, 150)), place
        assert [d.path for d in run.damaged] == [bad] and run.damaged[0].reason


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_segment_cut_short_is_reported_even_without_a_checksum(tmp_path: Path, keep: int) -> None:
    bad, _good = sealed(tmp_path, range(100), range(100, 150))
    (tmp_path / CHECKSUMS).unlink()
    bad.write_bytes(bad.read_bytes()[:keep])
    run = open_run(tmp_path)
    assert steps_of(run) == list(range(100, 150))
    assert [d.path for d in run.damaged] == [bad]


def test_a_body_that_does_not_decode_is_reported_even_without_a_checksum(tmp_path: Path) -> None:
    bad, _good = sealed(tmp_path, range(100), range(100, 150))
    (tmp_path / CHECKSUMS).unlink()
    data = bytearray(bad.read_bytes())
    data[4:200] = bytes(196)
    bad.write_bytes(data)
    run = open_run(tmp_path)
    assert len(run.rows("SELECT * FROM step_runs")) == 50
    assert [d.path for d in run.damaged] == [bad]


def test_a_checksum_line_cut_short_spoils_itself_only(tmp_path: Path) -> None:
    first, second = sealed(tmp_path, range(2), range(2, 4))
    lines = (tmp_path / CHECKSUMS).read_text().split("\n")
    (tmp_path / CHECKSUMS).write_text("\n".join([lines[1][:-3], lines[2]]))
    assert steps_of(tmp_path) == [0, 1, 2, 3]
    data = bytearray(second.read_bytes())
    data[50] ^= 1
    second.write_bytes(data)
    assert steps_of(tmp_path) == [0, 1]
    assert first.exists()


def test_a_segment_that_went_under_a_reader_is_reported(tmp_path: Path) -> None:
    first, _ = sealed(tmp_path, range(2), range(2, 4))
    run = open_run(tmp_path)
    assert steps_of(run) == [0, 1, 2, 3]
    first.unlink()
    assert steps_of(run) == [2, 3]
    assert [(d.path, d.reason) for d in run.damaged] == [(first, GONE)]


def test_a_wrong_query_is_an_error_and_blames_no_file(tmp_path: Path) -> None:
    sealed(tmp_path, range(2))
    run = open_run(tmp_path)
    with pytest.raises(Exception, match="nope"):
        run.rows("SELECT nope FROM step_runs")
    assert run.damaged == []


def test_segments_of_older_and_newer_schemas_are_read(tmp_path: Path) -> None:
    (path,) = sealed(tmp_path, range(2))
    now = pq.read_table(path)
    older = now.drop_columns(["phase"])
    newer = now.append_column("mood", pa.array(["good"] * 2))
    pq.write_table(older, tmp_path / "step_runs-000001.parquet")
    pq.write_table(newer, tmp_path / "step_runs-000002.parquet")
    rows = open_run(tmp_path).rows("SELECT * FROM step_runs")
    assert [set(r) for r in rows] == [set(STEP_RUNS.names())] * 6
    assert sorted(r["phase"] or "-" for r in rows) == ["-", "-", "decode", "decode", "decode", "decode"]


def test_a_tail_of_an_older_schema_is_read(tmp_path: Path) -> None:
    table = pa.table({"first_step": pa.array([5], pa.int64()), "mood": ["good"]})
    with pa.OSFile(str(tmp_path / "step_runs-000000.arrows"), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
        out.write_table(table)
    (row,) = open_run(tmp_path).rows("SELECT * FROM step_runs")
    assert row == {**dict.fromkeys(STEP_RUNS.names()), "first_step": 5}


def test_a_segment_or_tail_of_another_table_is_damaged_not_nulls(tmp_path: Path) -> None:
    w = writer(tmp_path)
    w.append("requests", (None,) * len(TABLES["requests"].columns))
    w.flush()
    tail = (tmp_path / "requests-000000.arrows").read_bytes()
    w.close()
    (tmp_path / "steps-000000.parquet").write_bytes((tmp_path / "requests-000000.parquet").read_bytes())
    (tmp_path / "step_runs-000000.arrows").write_bytes(tail)
    run = open_run(tmp_path)
    assert [run.one(f"SELECT count(*) AS n FROM {t}")["n"] for t in ("requests", "steps", "step_runs")] == [1, 0, 0]
    assert {d.path.name: d.reason.split("; ")[1] for d in run.damaged} == dict.fromkeys(
        ("steps-000000.parquet", "step_runs-000000.arrows"), "they are those of requests"
    )


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_no_table_takes_a_file_of_another_for_its_own(table: Table) -> None:
    others = [t.name for t in TABLES.values() if t is not table and not misfit(t.names(), table.names())]
    assert others == []
    assert misfit(("colour", "price"), table.names()) and misfit((), table.names())


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_file_of_our_older_and_of_our_newer_self_fits(table: Table) -> None:
    half = table.names()[: max(1, len(table.columns) // 2)]
    assert misfit(half, table.names()) == ""
    assert misfit((*table.names(), "mood", "weather"), table.names()) == ""
