"""CSV pages of Nsight Compute: long and wide, units, separators of thousands, and metrics nobody knows yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.trace.ncu.read import base_unit, metric, read
from pellucid.trace.timeline import Launches, Metric
from tests.conftest import shared_data

ABOUT = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
         '"Device","CC"')  # fmt: skip
FIRST = '"0","7","ada-python","lovelace-box","k<int, 2>(T1)","1","7","(128, 1, 1)","(224, 4, 1)","0","10.0"'
SECOND = '"1","7","ada-python","lovelace-box","j","1","8","(32, 1, 1)","(1, 1, 1)","1","10.0"'
TMEM = "tmem__bytes.sum.per_second"
FP4 = "sm__ops_path_tensor_op_utcmma_src_fp4.sum"
LONG = f'''==PROF== Connected to process 7 (/home/ada/bin/python)
==PROF== Disconnected from process 7
{ABOUT},"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"
{FIRST},"Speed Of Light","Duration","us","1,234.5",
{FIRST},"Speed Of Light","","","","Rule"
{FIRST},"Launch","Function Cache","","PreferNone",
{SECOND},"Tensor","sm__inst_executed_pipe_tcgen05.sum","inst","12,000",
'''
WIDE = f'''{ABOUT},"dram__bytes_read.sum","gpu__time_duration.sum","{FP4}","{TMEM}","launch__func_cache_config"
"","","","","","","","","","","","Mbyte","us","","Tbyte/s",""
{FIRST},"2.33","1,234.5","4,096","1.5","CachePreferNone"
{SECOND},"","7","0","n/a",""
'''


def page(folder: Path, text: str) -> Launches:
    (folder / "k.csv").write_text(text)
    return read(folder / "k.csv")


def test_a_details_page_has_a_launch_for_each_number(tmp_path: Path) -> None:
    found = page(tmp_path, LONG)
    assert [(x.number, x.name, x.grid, x.block, x.device, x.stream, x.compute_capability) for x in found.launches] == [
        (0, "k<int, 2>(T1)", (224, 4, 1), (128, 1, 1), 0, 7, "10.0"),
        (1, "j", (1, 1, 1), (32, 1, 1), 1, 8, "10.0")]  # fmt: skip
    assert found.launches[0].metrics == (Metric("Speed Of Light", "Duration", "ns", 1_234_500.0, None),
                                         Metric("Launch", "Function Cache", "", None, "PreferNone"))  # fmt: skip
    (counted,) = found.launches[1].metrics
    assert counted == Metric("Tensor", "sm__inst_executed_pipe_tcgen05.sum", "inst", 12_000.0, None)


def test_a_raw_page_has_its_units_in_a_row_of_their_own(tmp_path: Path) -> None:
    found = page(tmp_path, WIDE)
    assert found.launches[0].metrics == (
        Metric(None, "dram__bytes_read.sum", "byte", 2_330_000.0, None),
        Metric(None, "gpu__time_duration.sum", "ns", 1_234_500.0, None),
        Metric(None, FP4, "", 4096.0, None),
        Metric(None, TMEM, "byte/s", 1.5e12, None),
        Metric(None, "launch__func_cache_config", "", None, "CachePreferNone"),
    )  # fmt: skip
    assert [m.text for m in found.launches[1].metrics] == [None, None, "n/a"]
    assert found.about.damage == ()


@pytest.mark.parametrize("text", [LONG, WIDE])
def test_names_of_processes_and_hosts_are_dropped_and_counted(tmp_path: Path, text: str) -> None:
    found = page(tmp_path, text)
    assert [planted for planted in ("ada", "lovelace") if planted in str(found)] == []
    assert found.about.redacted_count == 4


@pytest.mark.parametrize(("unit", "base", "factor"), [
    ("Kbyte", "byte", 1e3), ("Mbyte", "byte", 1e6), ("Gbyte/s", "byte/s", 1e9), ("byte/second", "byte/s", 1.0),
    ("Kbyte/block", "byte/block", 1e3), ("us", "ns", 1e3), ("usecond", "ns", 1e3), ("msecond", "ns", 1e6),
    ("ms", "ns", 1e6), ("Khz", "hz", 1e3),
    ("nsecond", "ns", 1.0), ("ns", "ns", 1.0), ("s", "ns", 1e9), ("second", "ns", 1e9), ("Ghz", "hz", 1e9),
    ("GHz", "hz", 1e9),
    ("hz", "hz", 1.0), ("cycle/nsecond", "cycle/nsecond", 1.0), ("%", "%", 1.0), ("", "", 1.0), ("warp", "warp", 1.0),
    ("inst/cycle", "inst/cycle", 1.0), ("block", "block", 1.0), ("register/thread", "register/thread", 1.0),
])  # fmt: skip
def test_multiples_of_three_units_become_the_unit(unit: str, base: str, factor: float) -> None:
    assert base_unit(unit) == (base, factor)


@pytest.mark.parametrize(("value", "number", "text"), [
    ("1,234.5", 1234.5, None), ("0", 0.0, None), ("n/a", None, "n/a"), ("", None, ""), ("nan", None, "nan"),
    ("-7", -7.0, None), ("1e3", 1000.0, None),
])  # fmt: skip
def test_a_value_is_a_number_or_a_text(value: str, number: float | None, text: str | None) -> None:
    assert metric(None, "m", "", value) == Metric(None, "m", "", number, text)


def test_a_cut_page_gives_the_launches_before(tmp_path: Path) -> None:
    found = page(tmp_path, LONG[: LONG.rindex('"1","7"') + 30])
    assert [launch.number for launch in found.launches] == [0, 1]
    assert (len(found.launches[0].metrics), found.launches[1].metrics) == (2, ())


def test_a_real_page_tells_its_bandwidth() -> None:
    (launch,) = read(shared_data("nsys_ncu/dsocr_rtx5090/ncu/k0001_ncu.details.csv")).launches
    told = {m.metric: (m.value, m.unit) for m in launch.metrics}
    assert told["dram__bytes_read.sum"] == (2_330_000.0, "byte")
    assert told["SM Frequency"][1] == "hz" and (told["SM Frequency"][0] or 0) > 1e9
    assert launch.compute_capability == "12.0"


def test_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no table of Nsight Compute"):
        page(tmp_path, "ID,Kernel Name\n0,k\n")
