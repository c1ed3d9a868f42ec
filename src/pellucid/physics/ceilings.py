"""What a device can do at most, as one set of rates: the catalogue's peaks, or what somebody measured.

    peak_ceilings(device_of("NVIDIA H200")).memory.per_s              == 4.8e12
    measured_ceilings(device_of("NVIDIA H200")).memory.per_s          == 4.22e12      a copy, read and written
    with_measured(ceilings, Measured("NVIDIA H200", …))               what was measured on the very device counts

A rate keeps the peak it stands under, so that nothing passes that no device could do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pellucid.catalog.devices.gpus import Cell, Device
from pellucid.physics.formats import PRECISIONS, Precision

Basis = Literal["peak", "measured"]


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations or bytes a second."""

    per_s: float
    basis: Basis
    source: str
    peak_per_s: float | None = None    # None where no peak is known
    disputed: str = ""                 # what has to be said beside it


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Of one device. None where it has no such thing, or nobody states it."""

    device: str
    flop: tuple[tuple[Precision, Rate], ...]
    memory: Rate
    exps: Rate | None = None
    link: Rate | None = None           # each way, of one device in its scale-up domain
    network: Rate | None = None        # each way, out of the domain; a property of the host, never of the catalogue
    l2_bytes: float | None = None      # data that fit need not come from memory

    def flop_in(self, precision: Precision) -> Rate | None:
        return dict(self.flop).get(precision)

    @property
    def precisions(self) -> frozenset[Precision]:
        """What the device multiplies in."""
        return frozenset(precision for precision, _ in self.flop)

    def flop_per_s(self, precision: Precision) -> float | None:
        rate = self.flop_in(precision)
        return None if rate is None else rate.per_s

    @property
    def bytes_per_s(self) -> float:
        return self.memory.per_s

    @property
    def basis(self) -> Literal["peak", "measured", "mixed"]:
        found = {rate.basis for _, rate in self.flop} | {self.memory.basis}
        return found.pop() if len(found) == 1 else "mixed"

    @property
    def disputed(self) -> tuple[str, ...]:
        """Each doubtful rate with its reason."""
        named = [(f"{precision} flop/s", rate) for precision, rate in self.flop]
        others = (("bytes/s", self.memory), ("exp/s", self.exps), ("link bytes/s", self.link))
        return tuple(f"{name}: {rate.disputed}" for name, rate in (*named, *others) if rate and rate.disputed)

    def ridge_flop_per_byte(self, precision: Precision) -> float | None:
        """Below it memory binds, above it compute. None where the device does not multiply in this precision."""
        rate = self.flop_in(precision)
        return None if rate is None else rate.per_s / self.memory.per_s


def peak_ceilings(device: Device) -> Ceilings:
    """From data sheets alone."""
    link = _peak(device, device.cells["link_bytes_per_s"])
    flop = [(p, _peak(device, device.peak_flop_per_s[p])) for p in PRECISIONS]
    memory = _peak(device, device.cells["hbm_bytes_per_s"])
    assert memory is not None     # the catalogue's tests hold it to that
    return Ceilings(
        device.key, tuple((p, rate) for p, rate in flop if rate is not None), memory,
        _peak(device, device.cells["exp_per_s"]), None if link is None else replace(
            link, per_s=link.per_s / 2, peak_per_s=link.per_s / 2),
        None, device.cells["l2_bytes"].value,
    )  # fmt: skip


def _peak(device: Device, cell: Cell) -> Rate | None:
    if cell.value is None:
        return None
    return Rate(cell.value, "peak", f"{device.key}: {cell.source}", cell.value, cell.doubt)


def measured_ceilings(device: Device) -> Ceilings:
    """The best that the catalogue knows of each quantity to have been measured; peaks where nobody measured."""
    ceilings = peak_ceilings(device)
    for entry in sorted(device.entry.measured, key=lambda m: m.high):
        source = f"{entry.by}: {entry.conditions}"
        if entry.quantity == "hbm_bytes_per_s":
            ceilings = replaced(ceilings, {}, source, bytes_per_s=entry.high)
        for precision in PRECISIONS:
            if entry.quantity == f"{precision}_flop_per_s":
                ceilings = replaced(ceilings, {precision: entry.high}, source)
    return ceilings


@dataclass(frozen=True, slots=True)
class Measured:
    """What somebody measured on a device of their own."""

    device: str                                     # as the driver spells it
    flop: tuple[tuple[Precision, float], ...]       # per second
    bytes_per_s: float
    source: str                                     # when, and how


def with_measured(ceilings: Ceilings | None, own: Measured) -> Ceilings:
    """`ceilings`: of the catalogue; None where it does not have the device, of which nothing else is known then."""
    if ceilings is None:
        flop = tuple((p, _measured(None, per_s, own.source)) for p, per_s in own.flop)
        return Ceilings(own.device, flop, _measured(None, own.bytes_per_s, own.source))
    return replaced(ceilings, dict(own.flop), own.source, own.bytes_per_s)


def replaced(
    ceilings: Ceilings, flop_per_s: Mapping[Precision, float], source: str, bytes_per_s: float | None = None,
    network_bytes_per_s: float | None = None,
) -> Ceilings:  # fmt: skip
    """With what somebody measured in the place of peaks. The peaks stay known, and with them what is disputed."""
    flop = dict(ceilings.flop)
    for precision, per_s in flop_per_s.items():
        flop[precision] = _measured(flop.get(precision), per_s, source)
    memory = ceilings.memory if bytes_per_s is None else _measured(ceilings.memory, bytes_per_s, source)
    network = ceilings.network if network_bytes_per_s is None else _measured(None, network_bytes_per_s, source)
    ordered = tuple((p, flop[p]) for p in PRECISIONS if p in flop)
    return replace(ceilings, flop=ordered, memory=memory, network=network)


def _measured(before: Rate | None, per_s: float, source: str) -> Rate:
    """A measured rate is not in doubt, whatever the data sheet's is."""
    return Rate(per_s, "measured", source, before.peak_per_s if before else None)
