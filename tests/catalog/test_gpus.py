from __future__ import annotations

import pytest

from pellucid.catalog.devices.gpus import (
    CELLS,
    FILE,
    PEAKS,
    catalogue,
    cells_of,
    device_of,
    devices,
    domains,
    read_catalogue,
)
from pellucid.catalog.load import FOLDER
from pellucid.core.units import unit_of

TEXT = (FOLDER / "devices" / FILE).read_text()
NO_FP8 = {"a100_sxm_40", "a100_sxm_80", "a100_pcie_40", "a100_pcie_80"}


def test_the_devices_are_there() -> None:
    assert set(devices()) == {
        *NO_FP8, "h100_sxm", "h100_pcie", "h200", "b200", "b300", "gb200", "gb300", "mi300x", "mi355x",
    }  # fmt: skip
    assert {d.device for d in domains().values()} == {"gb200", "gb300"}


@pytest.mark.parametrize(("name", "key"), [
    ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100_sxm"), ("NVIDIA H100 PCIe", "h100_pcie"),
    ("NVIDIA B200", "b200"), ("NVIDIA B300 SXM6 AC", "b300"), ("NVIDIA GB200", "gb200"), ("NVIDIA GB300", "gb300"),
    ("NVIDIA A100-SXM4-80GB", "a100_sxm_80"), ("A100-SXM4-40GB", "a100_sxm_40"), ("NVIDIA A100 80GB PCIe",
    "a100_pcie_80"), ("AMD Instinct MI300X", "mi300x"), ("AMD Instinct MI355X", "mi355x"),
    ("AMD Instinct(TM) MI300X", "mi300x"), ("  nvidia  h200 ", "h200"),
])  # fmt: skip
def test_a_device_is_found_by_the_name_its_driver_prints(name: str, key: str) -> None:
    found = device_of(name)
    assert found is not None and found.key == key


@pytest.mark.parametrize("name", [
    "NVIDIA GeForce RTX 4090", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA H800",
    "NVIDIA H100", "H200", "NVIDIA L40S", "AMD Instinct MI325X", "AMD Instinct MI300A", "AMD Instinct MI300X VF",
    "NVIDIA H200 MIG 1g.18gb", "",
])  # fmt: skip
def test_what_is_not_in_the_catalogue_has_no_ceilings(name: str) -> None:
    assert device_of(name) is None


def test_no_name_stands_for_two_devices() -> None:
    names = [name.casefold() for d in devices().values() for name in d.entry.driver_names]
    assert len(set(names)) == len(names)


def test_a_precision_that_does_not_exist_is_null_and_never_zero() -> None:
    without = {p: {k for k, d in devices().items() if d.peak_flop_per_s[p].value is None} for p in PEAKS}
    assert without == {
        "bf16": set(), "fp16": set(), "tf32": {"mi355x"}, "fp32": set(), "fp8": NO_FP8, "int8": set(),
        "int4": set(devices()) - NO_FP8, "fp4": {*NO_FP8, "h100_sxm", "h100_pcie", "h200", "mi300x"},
    }  # fmt: skip
    assert all(cell.value is None or cell.value > 0 for _, cell in cells_of(catalogue()))


# Flags of the survey's hardware table.
@pytest.mark.parametrize(("key", "cell"), [
    ("b300", "fp4"), ("b300", "int8"), ("gb300", "int8"), ("mi355x", "fp8"),
    ("b200", "hbm_bytes"), ("b300", "hbm_bytes"), ("gb300", "hbm_bytes"), ("b200", "hbm_bytes_per_s"),
    ("b300", "hbm_bytes_per_s"), ("h200", "l2_bytes"), ("mi300x", "l2_bytes"), ("mi355x", "far_cache_bytes"),
    ("b300", "processors_count"), ("gb300", "processors_count"),
])  # fmt: skip
def test_a_cell_on_which_sources_differ_says_how(key: str, cell: str) -> None:
    device = devices()[key]
    assert len((device.peak_flop_per_s | device.cells)[cell].disputed) > 10


def test_an_undisputed_cell_is_not_flagged() -> None:
    assert [c for c in ("hbm_bytes", "hbm_bytes_per_s", "processors_count") if devices()["h200"].cells[c].doubt] == []


def test_the_pcie_card_is_another_chip() -> None:
    sxm, pcie = devices()["h100_sxm"], devices()["h100_pcie"]
    same = [n for n in ("processors_count", "hbm_bytes_per_s", "tdp_watts", "link_bytes_per_s")
            if sxm.cells[n].value == pcie.cells[n].value]  # fmt: skip
    assert same == []
    assert sxm.peak_flop_per_s["bf16"].value != pcie.peak_flop_per_s["bf16"].value


def test_what_is_specific_to_a_generation_is_data() -> None:
    hopper, blackwell, ultra = (devices()[k] for k in ("h200", "b200", "b300"))
    assert (hopper.cells["tensor_memory_bytes"].value, blackwell.cells["tensor_memory_bytes"].value) == (None, 262_144)
    assert (hopper.generation.two_processor_mma, blackwell.generation.two_processor_mma) == (False, True)
    rates = [d.cells["exp_per_s"].value for d in (hopper, blackwell, ultra)]
    assert rates == [4.18e12, 5.0e12, 10.7e12]


def test_a_peak_is_what_its_units_do_at_the_highest_clock_or_less() -> None:
    for key, device in devices().items():
        cells, peak = device.cells, device.peak_flop_per_s["bf16"].value
        per_clock, clock, count = (cells[n].value for n in ("bf16_flop_per_clock", "max_clock_hz", "processors_count"))
        if per_clock is not None and clock is not None:
            assert peak is not None and count is not None
            assert 0.9 < peak / (per_clock * clock * count) < 1.002, key


def test_the_h200s_measured_ceilings_stand_below_its_peaks() -> None:
    h200 = devices()["h200"]
    peaks = {f"{p}_flop_per_s": c.value for p, c in h200.peak_flop_per_s.items()} | {
        "hbm_bytes_per_s": h200.cells["hbm_bytes_per_s"].value}  # fmt: skip
    ours = {m.quantity: (m.low, m.high) for m in h200.entry.measured if m.by.startswith("pellucid")}
    assert ours == {
        "bf16_flop_per_s": (785e12, 809e12), "fp8_flop_per_s": (1277e12, 1289e12), "hbm_bytes_per_s": (4.22e12,) * 2,
    }  # fmt: skip
    assert all(m.low <= m.high <= (peaks[m.quantity] or 0) for m in h200.entry.measured)


def test_every_source_is_named_and_used() -> None:
    assert {cell.source for _, cell in cells_of(catalogue())} == set(catalogue().sources)


def test_cells_have_their_unit_in_their_name() -> None:
    assert [c for c in CELLS if not unit_of(c)] == ["bf16_flop_per_clock"]


@pytest.mark.parametrize(("old", "new", "fault"), [
    ('fp4 = { absent = "no hardware"', 'fp4 = { value = 0.0', "0.0 is no value"),
    ('fp4 = { absent = "no hardware", ', "fp4 = { ", "either a value"),
    ('source = "a100_sheet"', 'source = "hearsay"', "hearsay"),
    ('generation = "ampere"', 'generation = "amper"', "amper is not listed"),
    ("hbm_bytes = {", "hbm_byte = {", "not the ones every device has"),
    ('form = "SXM4"', 'shape = "SXM4"', "shape"), ('vendor = "nvidia"', 'vendor = "nvida"', "nvida"),
])  # fmt: skip
def test_what_is_not_whole_is_refused_with_the_files_name(old: str, new: str, fault: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=r"g\.toml: .*" + fault):
        read_catalogue(TEXT.replace(old, new, 1), "g.toml")
