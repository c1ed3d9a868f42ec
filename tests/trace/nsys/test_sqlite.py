"""Exports of Nsight Systems: real ones, those of other schemas, and those that are not whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, PellucidError
from pellucid.trace.nsys.sqlite import GRAPHS, read
from pellucid.trace.timeline import ANNOTATION, GRAPH, KERNEL, MEMCPY, NOT_TOLD, OP, RUNTIME, Device
from tests.conftest import shared_data
from tests.trace.nsys.exported import PROCESS, SMALL, K, R, export, without

REAL = "nsys_ncu/h100_2gpu_1s.sqlite"


def test_a_kernel_with_its_call_and_its_operator(tmp_path: Path) -> None:
    found = read(export(tmp_path / "a b#?.sqlite"))
    k, host = found.kernels, found.host
    assert (int(k.start_ns[0]), int(k.duration_ns[0]), int(k.device[0]), int(k.stream[0])) == (100, 50, 1, 7)
    assert (found.extents[k.grid[0]], found.extents[k.block[0]]) == ((2147483647, 65535, 3), (128, 1, 1))
    events = zip(host.name, host.kind, host.thread, strict=True)
    rows = {found.names[n]: (kind, found.threads[t]) for n, kind, t in events}
    assert rows == {"aten::mm": (OP, (7, 5)), "step 9": (ANNOTATION, (7, 5)), "cudaLaunchKernel": (RUNTIME, (7, 5))}
    assert found.names[host.name[k.op[0]]] == "aten::mm"
    assert found.texts[host.shapes[k.op[0]]] == "[[2, 3], [3, 4]]"
    assert found.names[host.name[k.launch[0]]] == "cudaLaunchKernel"
    assert found.about.damage == ("a range has no end",)


@pytest.mark.parametrize(("table", "gone"), [
    (K, ("globalPid",)), (K, ("streamId",)), (K, ("graphNodeId",)), (K, ("gridZ",)), (K, ("demangledName",)),
    (K, ("correlationId",)), (R, ("nameId",)), (R, ("globalTid",)), ("NVTX_EVENTS", ("textId", "eventType")),
    ("NVTX_EVENTS", ("text",)), ("NVTX_EVENTS", ("globalTid",)),
])  # fmt: skip
def test_a_schema_may_lack_columns(tmp_path: Path, table: str, gone: tuple[str, ...]) -> None:
    found = read(export(tmp_path / "t.sqlite", without(table, *gone)))
    assert found.count(KERNEL) == 1
    assert found.kernels.duration_ns.tolist() == [50]


@pytest.mark.parametrize("gone", ["NVTX_EVENTS", R, "StringIds"])
def test_a_schema_may_lack_tables(tmp_path: Path, gone: str) -> None:
    found = read(export(tmp_path / "t.sqlite", {n: t for n, t in SMALL.items() if n != gone}))
    assert found.kernels.duration_ns.tolist() == [50]


def test_without_full_names_the_short_ones_are_taken(tmp_path: Path) -> None:
    found = read(export(tmp_path / "t.sqlite", without(K, "demangledName")))
    assert [found.names[n] for n in found.kernels.name] == ["gemm"]


def test_without_processes_correlations_are_of_one(tmp_path: Path) -> None:
    found = read(export(tmp_path / "t.sqlite", without(K, "globalPid")))
    assert found.kernels.launch[0] >= 0


def test_the_same_correlation_in_another_process_is_another_launch(tmp_path: Path) -> None:
    other = {**SMALL, R: (SMALL[R][0], [(80, 90, (8 << 24) | 5, 55, 3)])}
    assert read(export(tmp_path / "t.sqlite", other)).kernels.launch.tolist() == [NOT_TOLD]


def test_copies_and_graphs_traced_whole(tmp_path: Path) -> None:
    tables = {**SMALL,
              "CUPTI_ACTIVITY_KIND_MEMCPY": ("start end deviceId streamId correlationId globalPid bytes copyKind",
                                             [(10, 20, 0, 7, 1, PROCESS, 4096, 1), (30, 40, 0, 7, 2, PROCESS, 8, 99)]),
              "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start end deviceId streamId correlationId globalPid graphId",
                                                  [(200, 900, 0, 7, 3, PROCESS, 12)])}  # fmt: skip
    found = read(export(tmp_path / "t.sqlite", tables))
    k = found.kernels
    rows = [(found.names[n], kind, size, graph) for n, kind, size, graph
            in zip(k.name, k.kind, k.copied_bytes, k.graph, strict=True)]  # fmt: skip
    assert rows[0] == ("Memcpy HtoD", MEMCPY, 4096, NOT_TOLD) and rows[1][0] == "Memcpy"
    assert rows[3] == ("Graph", GRAPH, NOT_TOLD, 12)
    assert GRAPHS in found.about.damage


def test_an_event_that_ends_before_it_starts_is_counted(tmp_path: Path) -> None:
    words, (row,) = SMALL[K]
    found = read(export(tmp_path / "t.sqlite", {**SMALL, K: (words, [row, (9, 8, *row[2:]), (8, 8, *row[2:])])}))
    assert (found.count(KERNEL), found.about.damaged_count) == (2, 2)      # and the range without an end


def test_numbers_that_are_texts_are_read_or_not_told(tmp_path: Path) -> None:
    words, (row,) = SMALL[K]
    found = read(export(tmp_path / "t.sqlite", {**SMALL, K: (words, [row, (200, 210, "x", *row[3:])])}))
    assert found.kernels.device.tolist() == [1, NOT_TOLD]


def test_what_an_export_says_of_its_device_and_clock() -> None:
    about = read(shared_data("nsys_ncu/rtx3080_mock.sqlite")).about
    assert about.devices == (Device(0, "NVIDIA GeForce RTX 3080", "8.6", 68, 10736893952),)
    assert about.wall_zero_ns == 1776781226557295056
    assert read(shared_data("nsys_ncu/healthy_1pct.sqlite")).about.devices == (
        Device(0, "NVIDIA H100 80GB HBM3", None, None, None),)  # fmt: skip


def test_the_operators_of_a_real_export_have_few_names() -> None:
    """16,782 ranges, each with a number of its own in its text."""
    found = read(shared_data(REAL))
    assert len(found.host) == 22776 and len(found.names) < 300
    linked = found.kernels.op >= 0
    assert 0.45 < linked.mean() < 0.55      # the export was cut out of a longer one: half of the launches are before it


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(shared_data(REAL).read_bytes())
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.close()
    path.chmod(0o444)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert read(path).count() == 3442
    assert [p.name for p in tmp_path.iterdir()] == ["t.sqlite"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_file_that_is_being_written_is_read_as_it_lies(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite")
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute(f"INSERT INTO {K} SELECT * FROM {K}")
    writer.commit()
    found = read(path)
    writer.close()
    assert found.count() == 1
    assert any("write-ahead log" in said for said in found.about.damage)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99, 0.9999])
def test_a_file_that_is_cut_is_refused_with_what_is_there(tmp_path: Path, share: float) -> None:
    raw = shared_data(REAL).read_bytes()
    (tmp_path / "t.sqlite").write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(AskedWrongly, match=rf"is cut: \d+ of its {len(raw)} bytes are there"):
        read(tmp_path / "t.sqlite")


@pytest.mark.slow
def test_damaged_pages_cost_what_is_behind_them_in_their_table(tmp_path: Path) -> None:
    raw, counts = shared_data(REAL).read_bytes(), []
    for page in range(1, len(raw) // 4096, 30):
        (tmp_path / "t.sqlite").write_bytes(raw[: page * 4096] + b"\xff" * 4096 + raw[(page + 1) * 4096:])
        try:
            found = read(tmp_path / "t.sqlite")
        except PellucidError:
            continue
        assert found.count() == 3442 or any("CUPTI_ACTIVITY_KIND_KERNEL is damaged" in s for s in found.about.damage)
        counts.append(found.count())
    assert len(counts) > 12 and max(counts) == 3442 and min(counts) < 3442


@pytest.mark.parametrize(("content", "said"), [
    (b"SQLite format 3\0" + bytes(100), "no SQLite database that can be read"), (b"\x1f\x8babc", "is packed"),
    (b"x" * 5000, "no SQLite database that can be read"), (b"", "no export of Nsight Systems"),
])  # fmt: skip
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "t.sqlite").write_bytes(content)
    with pytest.raises(AskedWrongly, match=said):
        read(tmp_path / "t.sqlite")


def test_another_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no export of Nsight Systems"):
        read(export(tmp_path / "t.sqlite", {"people": ("name", [("ada",)])}))


def test_secrets_of_an_export_do_not_come_out(tmp_path: Path) -> None:
    secret = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
    others = [(9, f"export HF_TOKEN={secret}"), (10, "/home/ada/log")]
    tables = {**SMALL, "StringIds": ("id value", [*SMALL["StringIds"][1], *others]),
              "TARGET_INFO_SYSTEM_ENV": ("name value", [("HF_TOKEN", secret), ("Hostname", "lovelace-box")]),
              "PROCESSES": ("globalPid pid name", [(PROCESS, 7, f"python --token {secret}")]),
              "META_DATA_EXPORT": ("name value", [("EXPORT_USER", "ada")]),
              "NVTX_EVENTS": (SMALL["NVTX_EVENTS"][0],
                              [(1, 2, 59, f"load /home/ada/x {secret}", PROCESS, None)])}  # fmt: skip
    found = read(export(tmp_path / "t.sqlite", tables))
    text = "\n".join(map(str, (found.about, found.names, found.texts, found.threads)))
    assert [planted for planted in (secret, "ada", "lovelace-box") if planted in text] == []
    assert (found.about.redacted_count, "load ~/x ~" in found.names) == (6, True)


@pytest.mark.parametrize("gone", [(), (3,), (0, 1, 2), tuple(range(1, 40, 2))])
def test_a_table_read_in_parts_is_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  gone: tuple[int, ...]) -> None:  # fmt: skip
    """Row numbers may have holes."""
    words, (row,) = SMALL[K]
    rows = [(100 + i, 150 + 2 * i, *row[2:]) for i in range(41)]
    path = export(tmp_path / "t.sqlite", {**SMALL, K: (words, rows)})
    with sqlite3.connect(path) as writer:
        writer.executemany(f"DELETE FROM {K} WHERE start = ?", [(100 + i,) for i in gone])
    writer.close()
    monkeypatch.setattr("pellucid.trace.nsys.tables.PART_ROWS", 10)
    found = read(path)
    assert found.kernels.duration_ns.tolist() == [50 + i for i in range(41) if i not in gone]
    assert len(set(found.kernels.correlation.tolist())) == 1 and found.about.damage == ("a range has no end",)
