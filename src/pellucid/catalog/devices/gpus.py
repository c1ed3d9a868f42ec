"""Devices → frozen records, and the look-up by the name that a driver prints.

    device_of("NVIDIA H100 PCIe").key                == "h100_pcie"      never the SXM, which is another chip
    device_of("NVIDIA GeForce RTX 4090")             is None
    devices()["h200"].peak_flop_per_s["fp4"].value   is None             no such hardware, which is not 0
    devices()["b300"].peak_flop_per_s["fp4"].disputed

The head of gpus.toml says what the fields mean. Strict: an unknown key, a cell with neither value nor reason, a source
that is not listed, each with the file's and the cell's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

FILE = "gpus.toml"
Basis = Literal["stated", "reported", "derived", "recalled"]
PEAKS = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8", "int4", "fp4")
CELLS = (
    "hbm_bytes", "hbm_reported_bytes", "hbm_bytes_per_s", "l2_bytes", "far_cache_bytes", "processors_count",
    "shared_bytes", "tensor_memory_bytes", "max_clock_hz", "bf16_flop_per_clock", "exp_per_s", "tdp_watts",
    "link_bytes_per_s", "domain_gpus_count",
)  # fmt: skip


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str                    # key of the file's [sources]
    value: float | None = None
    absent: Literal["", "no hardware", "not established"] = ""
    basis: Basis = "stated"
    disputed: str = ""             # how sources disagree; "" where they do not
    note: str = ""

    @property
    def doubt(self) -> str:
        """What has to be said beside anything computed from this cell; "" for nothing."""
        recalled = "recalled, not looked up again" if self.basis == "recalled" else ""
        return "; ".join(filter(None, (self.disputed, recalled)))


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quantity: str                  # as a cell, or a precision with _flop_per_s
    low: float
    high: float
    by: str
    conditions: str


class Generation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is specific to one generation, so that none is judged by the model of another."""

    matrix_instruction: str
    two_processor_mma: bool        # two processors can share one matrix instruction
    note: str


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    driver_names: list[str]        # as the driver prints them, whole
    vendor: Literal["nvidia", "amd"]
    generation: str
    architecture: str              # compute capability or gfx name
    form: str
    peak_flop_per_s: dict[str, Cell]
    cells: dict[str, Cell]
    measured: list[Measured] = []


class Device(msgspec.Struct, frozen=True):
    key: str
    entry: Entry
    generation: Generation

    @property
    def peak_flop_per_s(self) -> dict[str, Cell]:
        return self.entry.peak_flop_per_s

    @property
    def cells(self) -> dict[str, Cell]:
        return self.entry.cells


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rack whose GPUs all reach each other at scale-up speed; cells are of the whole."""

    name: str
    device: str
    cells: dict[str, Cell]


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, str]
    generations: dict[str, Generation]
    devices: dict[str, Entry]
    domains: dict[str, Domain]


def read_catalogue(text: str, name: str = FILE) -> Catalogue:
    """Raises ValueError that names the file and the cell."""
    try:
        found = msgspec.toml.decode(text, type=Catalogue)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{name}: {error}") from error
    if fault := next(faults(found), None):
        raise ValueError(f"{name}: {fault}")
    return found


def faults(found: Catalogue) -> Iterator[str]:
    """What the types do not say: whole rows, known sources, and a reason wherever there is no value."""
    for key, entry in found.devices.items():
        if entry.generation not in found.generations:
            yield f"{key}: generation {entry.generation} is not listed"
        if tuple(entry.peak_flop_per_s) != PEAKS or tuple(entry.cells) != CELLS:
            yield f"{key}: its cells are not the ones every device has, in their order"
    for place, cell in cells_of(found):
        if (cell.value is None) != bool(cell.absent):
            yield f"{place}: either a value, or what its absence means"
        if cell.value is not None and cell.value <= 0:
            yield f"{place}: {cell.value} is no value; what is not there is absent"
        if cell.source not in found.sources:
            yield f"{place}: source {cell.source} is not listed"


def cells_of(found: Catalogue) -> Iterator[tuple[str, Cell]]:
    for key, entry in found.devices.items():
        yield from ((f"{key}.{name}", cell) for name, cell in (*entry.peak_flop_per_s.items(), *entry.cells.items()))
    for key, domain in found.domains.items():
        yield from ((f"{key}.{name}", cell) for name, cell in domain.cells.items())


@cache
def catalogue() -> Catalogue:
    return read_catalogue((Path(__file__).with_name(FILE)).read_text())


@cache
def devices() -> dict[str, Device]:
    found = catalogue()
    return {k: Device(k, entry, found.generations[entry.generation]) for k, entry in found.devices.items()}


@cache
def domains() -> dict[str, Domain]:
    return catalogue().domains


def device_of(driver_name: str) -> Device | None:
    """The device a driver's name stands for; None where it is not in the catalogue. Whole names only: what merely
    begins alike is another chip (H100 PCIe, H100 NVL, H200 NVL, GH200). Spaces are forgiven, case and trademarks too.
    """
    return _by_name().get(_plain(driver_name))


@cache
def _by_name() -> dict[str, Device]:
    return {_plain(name): device for device in devices().values() for name in device.entry.driver_names}


def _plain(name: str) -> str:
    return " ".join(re.sub(r"\((?:tm|r)\)|[™®]", "", name, flags=re.IGNORECASE).split()).casefold()
