"""The workload file: what is written is read, and what is none is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.units import unit_of
from pellucid.workload.file import COLUMNS, KEY, SCHEMA, About, Workload, read, write
from pellucid.workload.rows import BLIND, Request, Rows
from tests.workload.trace_files import columns

FULL = Request(900, 10, 7, [-5, 2**62], 512, "chat", "s1", "json", 4_000, 0.7, 0.95, 64, 40, "yes")


def made(*requests: Request) -> Workload:
    rows = Rows(read_count=len(requests))
    for request in requests:
        rows.add(request)
    return rows.workload("by hand", "test", seed=4)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    workload = made(FULL, Request(1))
    assert write(workload, tmp_path / "w") == (tmp_path / "w").stat().st_size
    found = read(tmp_path / "w")
    assert found.about == workload.about
    names = [n for n in SCHEMA.names if n != "arrival_ns"]
    assert columns(found, *names) == [tuple(getattr(r, n) for n in names) for r in (FULL, Request(1))]
    assert columns(found, "arrival_ns") == [(0,), (None,)]
    assert [p.name for p in tmp_path.iterdir()] == ["w"]


def test_a_column_of_which_one_has_a_value_is_not_missing() -> None:
    assert made(FULL, Request(1)).about.missing == {}
    assert made(Request(1)).about.missing.keys() == BLIND.keys()


def test_many_batches_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.workload.rows.BATCH_ROWS", 3)
    found = made(*(Request(i + 1, arrival_ns=100 - i) for i in range(10)))
    assert columns(found, "prompt_tokens", "arrival_ns") == [(10 - i, i) for i in range(10)]


def test_a_number_has_its_unit_in_its_name() -> None:
    odd = {"blocks", "temperature", "top_p", "top_k"}       # hashes, and what has no unit
    assert [c.name for c in COLUMNS if c.type != pa.string() and not unit_of(c.name) and c.name not in odd] == []


def test_no_file_and_no_parquet_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a text")
    (tmp_path / "empty").touch()
    for name, said in (("gone", "no such file"), ("text", "is no workload"), ("empty", "is no"), (".", "is no")):
        with pytest.raises(AskedWrongly, match=said):
            read(tmp_path / name)


def test_parquet_of_others_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x")
    with pytest.raises(AskedWrongly, match="does not say where it comes from"):
        read(tmp_path / "x")


@pytest.mark.parametrize(
    ("about", "said"),
    [(b"{", "does not read"), (b'{"source": 5, "format": "x"}', "does not read"),
     (msgspec.json.encode(About("x", "y", version=3)), "of version 3; this program reads 1 to 2")],
)  # fmt: skip
def test_a_source_that_does_not_read_is_refused(tmp_path: Path, about: bytes, said: str) -> None:
    pq.write_table(made(FULL).requests.replace_schema_metadata({KEY: about}), tmp_path / "w")
    with pytest.raises(AskedWrongly, match=said):
        read(tmp_path / "w")


def test_columns_that_are_not_as_they_should_be_are_named(tmp_path: Path) -> None:
    table = made(FULL).requests.drop_columns(["task"]).set_column(0, "arrival_ns", pa.array(["now"]))
    pq.write_table(table.replace_schema_metadata({KEY: msgspec.json.encode(About("x", "y"))}), tmp_path / "w")
    with pytest.raises(AskedWrongly, match="without arrival_ns, task as it should be"):
        read(tmp_path / "w")


def test_a_file_of_before_sampling_was_whole_reads_as_if_nobody_had_seen_it(tmp_path: Path) -> None:
    old = made(FULL).requests.drop_columns(["top_k", "seeded"])
    about = About("x", "y", requests_count=1, version=1)
    pq.write_table(old.replace_schema_metadata({KEY: msgspec.json.encode(about)}), tmp_path / "w")
    found = read(tmp_path / "w")
    assert found.requests.schema.equals(SCHEMA)
    assert columns(found, "temperature", "top_k", "seeded") == [(0.7, None, None)]
    pq.write_table(old.replace_schema_metadata({KEY: msgspec.json.encode(About("x", "y"))}), tmp_path / "w")
    with pytest.raises(AskedWrongly, match="without seeded, top_k as it should be"):
        read(tmp_path / "w")


def test_a_request_without_a_prompt_is_refused(tmp_path: Path) -> None:
    workload = made(FULL)
    table = workload.requests.set_column(1, SCHEMA.field(1), pa.array([None], pa.int64()))
    write(Workload(workload.about, table), tmp_path / "w")
    with pytest.raises(AskedWrongly, match="no prompt length"):
        read(tmp_path / "w")


@pytest.mark.slow
def test_a_damaged_or_cut_file_is_refused_or_is_the_same(tmp_path: Path) -> None:
    workload = made(*(Request(i + 1, 5, i) for i in range(500)))
    write(workload, tmp_path / "w")
    whole = (tmp_path / "w").read_bytes()
    refused = 0
    for at in range(0, len(whole), 37):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]):
            (tmp_path / "d").write_bytes(damaged)
            try:
                assert len(read(tmp_path / "d")) == 500
            except AskedWrongly:
                refused += 1
    assert refused > len(whole) / 37


def test_a_folder_that_is_not_there_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="cannot write"):
        write(made(FULL), tmp_path / "gone" / "w")
    assert list(tmp_path.iterdir()) == []
