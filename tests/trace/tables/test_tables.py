"""Tables of kernels that tools and people publish."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.trace.detect import load
from pellucid.trace.tables import averages, events, parquet, sums
from pellucid.trace.tables.text import number, read_text, rows
from pellucid.trace.timeline import KERNEL, MEMCPY, NOT_TOLD, Damage, KernelTable, Trace
from tests.conftest import shared_data

AVERAGES = """\
-----------------------------  ------------  ------------  ------------  ------------  ------------
                         Name      Self CPU     CPU total     Self CUDA    CUDA total    # of Calls
-----------------------------  ------------  ------------  ------------  ------------  ------------
                     aten::mm       2.000ms       3.000ms       1.000ms       1.000ms             5
       void gemm<float>(T1...       0.000us       0.000us       1.500ms       1.500ms             5
                       step#7       0.000us       0.000us       2.000ms       2.000ms             1
   Memcpy HtoD (Host -> Devi...     0.000us       0.000us     500.000us     500.000us             2
-----------------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 2.000ms
Self CUDA time total: 2.000ms
"""


def test_a_table_for_each_step_of_an_engine() -> None:
    found = sums.read(shared_data("nsys_ncu/gh200_glm52/dcp4-c1-agrs-kernels.csv"))
    row = found.rows[0]
    assert found.per == "step"
    assert (row.name, row.role) == ("marlin_moe_wna16::Marlin", "Target routed W4 MoE")
    assert (row.count, row.total_ns) == (289.5, 9338108)
    assert (row.grid, row.block, row.median_ns) == ((396, 1, 1), (128, 1, 1), 28991.0)


def test_a_table_of_shares_has_no_times() -> None:
    found = sums.read(shared_data("other_profiles/sglang_glm52_b200_random_mid_kernel_table.tsv"))
    assert {row.total_ns for row in found.rows} == {None}
    assert [(row.count, row.share_ratio, row.role) for row in found.rows[:2]] == [
        (1216.0, 0.1505, "moe_comm"), (1216.0, pytest.approx(0.0971), "moe_comm")]  # fmt: skip


def test_a_table_of_events_has_times_but_no_streams() -> None:
    found = events.read(shared_data("other_profiles/carvllm_torch_events_sample.csv.gz"))
    k = found.kernels
    assert (int(k.kind[0]), int(k.start_ns[0]), int(k.duration_ns[0])) == (MEMCPY, 1_450_770, 1_392_890)
    assert set(k.stream.tolist()) == {NOT_TOLD} and found.about.rank == 0
    assert (np.diff(k.start_ns) >= 0).all()


def test_operators_and_annotations_are_no_kernels(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(AVERAGES)
    found = load(tmp_path / "t.txt")
    assert isinstance(found, KernelTable)
    assert [(row.name, row.total_ns, row.count) for row in found.rows] == [
        ("void gemm<float>(T1...", 1_500_000, 5.0), ("Memcpy HtoD (Host -> Devi...", 500_000, 2.0)]  # fmt: skip
    assert (found.names_cut, found.about.damage) == (True, ())


@pytest.mark.parametrize(("change", "said"), [
    (("step#7", "step_7"), averages.TOO_MUCH), (("Self CUDA time total: 2.000ms\n", ""), averages.CUT),
])  # fmt: skip
def test_a_printed_table_is_held_against_its_own_total(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    (tmp_path / "t.txt").write_text(AVERAGES.replace(*change))
    assert averages.read(tmp_path / "t.txt").about.damage == (said,)


def test_a_real_printed_table_sums_to_its_own_total() -> None:
    found = averages.read(shared_data("h200_vllm024/qwen3-30b-a3b_profiler_table.txt"))
    assert round(sum(row.total_ns or 0 for row in found.rows) / 1e9, 3) == 1.061      # Self CUDA time total: 1.061s
    assert found.rows[0].name == "fused_moe_kernel"


def test_a_parquet_file_of_executions(tmp_path: Path) -> None:
    pq.write_table(pa.table({"Name": ["k", "[CUDA memcpy HtoD]", None], "Start": [30, 10, 20], "Duration": [5, 6, -7],
                             "Strm": [7.0, None, 1.0], "GrdX": [1, None, 1]}), tmp_path / "t.parquet")  # fmt: skip
    found = parquet.read(tmp_path / "t.parquet")
    k = found.kernels
    assert [(found.names[n], int(kind), int(s)) for n, kind, s in zip(k.name, k.kind, k.start_ns, strict=True)] == [
        ("[CUDA memcpy HtoD]", MEMCPY, 10), ("k", KERNEL, 30)]  # fmt: skip
    assert (k.stream.tolist(), found.about.damaged_count) == ([NOT_TOLD, 7], 1)


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"x" * 500, b"PAR1" + b"x" * 500 + b"PAR1"])
def test_a_parquet_file_that_is_cut_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(AskedWrongly, match="cannot read"):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize("reader", [sums.read, events.read, averages.read])
def test_another_table_is_refused(tmp_path: Path, reader: Callable[[Path], Trace]) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(AskedWrongly, match="no table of"):
        reader(tmp_path / "t.csv")


def test_rows_that_do_not_fit_are_counted() -> None:
    damage = Damage()
    assert list(rows(["a,b\n", "1,2\n", "1,2,3\n", "4\n", "\n"], damage)) == [{"a": "1", "b": "2"}, {"a": "4"}]
    assert damage.count == 1


def test_a_row_of_a_table_without_name_is_counted(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("pct_of_gpu\tcalls\tkernel\n15.0\t2\tk\n-\t1\tj\n")
    found = sums.read(tmp_path / "t.tsv")
    assert ([row.name for row in found.rows], found.about.damaged_count) == (["k"], 1)


def test_a_packed_table_that_is_cut(tmp_path: Path) -> None:
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(b"a,b\n" + b"1,2\n" * 100)[:-8])
    damage = Damage()
    assert read_text(tmp_path / "t.csv.xz", damage).startswith("a,b\n1,2\n")
    assert damage.sentences() == ("the packed file ends early: what could be unpacked was read",)


@pytest.mark.parametrize(("text", "value"), [
    ("1,234.5", 1234.5), (" 7 ", 7.0), ("12%", 12.0), ("", None), (None, None), ("x", None), ("inf", None),
    ("nan", None),
])  # fmt: skip
def test_numbers_of_tables(text: str | None, value: float | None) -> None:
    assert number(text) == value
