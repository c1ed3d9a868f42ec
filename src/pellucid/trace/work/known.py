"""A kernel's work and its roof, or why it is not known.

    of(work, ceilings, duration_ns, "shapes")   → Known(roof_ns=262_000, bound="memory", basis="shapes", …)

What would be faster than the device can be is a fault of what was assumed or measured, and never a figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.physics.ceilings import Ceilings
from pellucid.physics.formulae.moe import UNIFORM
from pellucid.physics.roof import Impossible, NoRoof, efficiency, main_precision
from pellucid.physics.work import Work


@dataclass(frozen=True, slots=True)
class Known:
    """None is not known."""

    flop: float | None = None
    moved_bytes: float | None = None
    precision: str | None = None
    roof_ns: int | None = None
    bound: str | None = None
    basis: str | None = None            # shapes, geometry or profiler
    roof_basis: str | None = None       # measured or peak, "disputed" behind it
    note: str | None = None


NOTHING = Known()
TOUCHED = "experts touched are not known: if all were as likely, the kernel would be faster than the device can be"


def counted_elsewhere(with_what: str, basis: str) -> Known:
    """A kernel that finishes another's work: what it adds to the least time is nothing."""
    return Known(0.0, 0.0, None, 0, "memory", basis, None, f"its work is counted with {with_what}")


def unknown(why: str) -> Known:
    return Known(note=why)


def of(work: Work, ceilings: Ceilings | None, duration_ns: int, basis: str) -> Known:
    assumed = "; ".join(work.assumes) or None
    plain = Known(work.flop, work.moved_bytes, main_precision(work), basis=basis, note=assumed)
    if ceilings is None or duration_ns <= 0:
        return plain
    found = efficiency(work, ceilings, duration_ns)
    if isinstance(found, NoRoof):
        return Known(plain.flop, plain.moved_bytes, plain.precision, basis=basis, note=found.reason)
    if isinstance(found, Impossible):
        return unknown(TOUCHED if UNIFORM in work.assumes else found.reason)
    roof = found.roof
    told = f"{roof.basis}, disputed" if roof.disputed else roof.basis
    return Known(plain.flop, plain.moved_bytes, plain.precision, round(roof.time_ns), roof.binds, basis, told, assumed)
