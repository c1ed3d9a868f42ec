"""CSV reports of `nsys stats`: units, spellings and what is printed around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.trace.detect import load
from pellucid.trace.nsys.reports import read
from pellucid.trace.timeline import KERNEL, MEMCPY, NOT_TOLD, KernelTable, Timeline
from tests.conftest import shared_data

SUMS = {
    "ns": 'Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n'
          '60.0,3000,2,1500.0,1500.0,1000,2000,500.0,"void k<int, 2>(T1)"\n40.0,2000,1,2000.0,2000.0,2000,2000,0,j\n',
    "us": '"Time (%)","Total Time (us)","Instances","Avg (us)","Med (us)","Min (us)","Max (us)","Name"\n'
          '"60.0","3.000","2","1.5","1.5","1","2","void k<int, 2>(T1)"\n"40.0","2","1","2","2","2","2","j"\n',
    "of 2020": 'Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n'
               '60.0,3000,2,1500.0,1000,2000,"void k<int, 2>(T1)"\n40.0,2000,1,2000.0,2000,2000,j\n',
    "with what nsys prints": 'Processing [t.sqlite] with [cuda_gpu_kern_sum.py]...\n\n ** CUDA GPU Kernel Summary:\n\n'
                             'Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n'
                             '60.0,"3,000",2,1500.0,1000,2000,"void k<int, 2>(T1)"\n40.0,2000,1,2000.0,2000,2000,j\n\n',
}  # fmt: skip
TRACE = ("Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Throughput (MB/s),Device,Ctx,Strm,"
         "Name\n"
         '2000,500,9,4,2,1,128,1,1,,,NVIDIA H100 (1),1,7,"void k<int, 2>(T1)"\n'
         "1000,300,8,,,,,,,0.004,13.3,NVIDIA H100 (1),1,7,[CUDA memcpy Host-to-Device]\n"
         "x,1,8,,,,,,,,,,,,broken\n")  # fmt: skip


def written(folder: Path, text: str) -> Path:
    (folder / "r.csv").write_text(text)
    return folder / "r.csv"


@pytest.mark.parametrize("spelling", SUMS)
def test_sums_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    found = load(written(tmp_path, SUMS[spelling]))
    assert isinstance(found, KernelTable)
    assert [(r.name, r.count, r.total_ns, r.min_ns, r.max_ns, r.mean_ns) for r in found.rows] == [
        ("void k<int, 2>(T1)", 2.0, 3000, 1000.0, 2000.0, 1500.0),
        ("j", 1.0, 2000, 2000.0, 2000.0, 2000.0)]  # fmt: skip
    assert (found.per, found.about.damage) == ("capture", ())


def test_a_median_that_is_not_told_is_none(tmp_path: Path) -> None:
    old, new = (read(written(tmp_path, SUMS[spelling])) for spelling in ("of 2020", "ns"))
    assert isinstance(old, KernelTable) and isinstance(new, KernelTable)
    assert (old.rows[0].median_ns, new.rows[0].median_ns) == (None, 1500.0)


def test_a_report_of_executions_is_a_timeline(tmp_path: Path) -> None:
    found = load(written(tmp_path, TRACE))
    assert isinstance(found, Timeline)
    k = found.kernels
    assert [(found.names[n], int(kind)) for n, kind in zip(k.name, k.kind, strict=True)] == [
        ("[CUDA memcpy Host-to-Device]", MEMCPY), ("void k<int, 2>(T1)", KERNEL)]  # fmt: skip
    assert (k.start_ns.tolist(), k.device.tolist()) == ([1000, 2000], [1, 1])
    assert k.copied_bytes.tolist() == [4000, NOT_TOLD]
    assert found.extents[k.grid[1]] == (4, 2, 1) and k.grid[0] == NOT_TOLD
    assert found.about.damaged_count == 1


def test_copies_by_operation(tmp_path: Path) -> None:
    text = "Time (%),Total Time (ns),Count,Avg (ns),Operation\n100.0,40,4,10,[CUDA memcpy DtoH]\n"
    found = load(written(tmp_path, text))
    assert isinstance(found, KernelTable)
    assert [(r.name, r.count, r.total_ns) for r in found.rows] == [("[CUDA memcpy DtoH]", 4.0, 40)]


def test_a_row_that_is_cut_is_counted(tmp_path: Path) -> None:
    found = read(written(tmp_path, SUMS["ns"] + "7.0"))
    assert (found.about.damaged_count, found.about.damage) == (1, ("a row has no name or no time that can be read",))


def test_a_real_report_sums_to_what_its_shares_say() -> None:
    found = read(shared_data("nsys_ncu/dsocr_rtx5090/nsys_all-stage_nsys_summary_cuda_gpu_kern_sum.csv"))
    assert isinstance(found, KernelTable)
    first = found.rows[0].total_ns or 0
    assert round(100 * first / sum(r.total_ns or 0 for r in found.rows), 1) == 24.9     # its own column says 24.9


def test_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no table of nsys stats"):
        read(written(tmp_path, "a,b\n1,2\n"))
