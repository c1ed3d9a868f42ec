"""How fast a piece of work can be at best on a device, and how near something measured came.

    roof(work, ceilings)                        Roof(time_ns=262_000, binds="memory", …)
    efficiency(work, ceilings, 295_000)         Efficiency(ratio=0.89, …)
    efficiency(work, ceilings, 150_000)         Impossible("… 1.75 times …")    a fault of ours, never a triumph

Time is that of the slowest part: matrix units, memory, exponentials, wires. Parts overlap; nothing adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.core.units import S_NS
from pellucid.physics.ceilings import Basis, Ceilings, Rate
from pellucid.physics.formats import Precision
from pellucid.physics.work import Work

Part = Literal["compute", "memory", "exponentials", "link", "network"]
# Repeated measurements of one ceiling on one machine differ by so much; above it something else is wrong.
SLACK_RATIO = 1.03


@dataclass(frozen=True, slots=True)
class Roof:
    """Least times of each part; None where the work has no such part."""

    compute_ns: float
    memory_ns: float
    exponentials_ns: float | None
    link_ns: float | None
    network_ns: float | None
    binds: Part
    basis: Basis                        # of the part that binds
    ridge_flop_per_byte: float | None   # of the precision with the most flop
    disputed: tuple[str, ...]           # doubts in any rate that was used
    assumes: tuple[str, ...]            # what the work was assumed to be

    @property
    def parts(self) -> tuple[tuple[Part, float], ...]:
        named: tuple[tuple[Part, float | None], ...] = (
            ("compute", self.compute_ns), ("memory", self.memory_ns), ("exponentials", self.exponentials_ns),
            ("link", self.link_ns), ("network", self.network_ns),
        )  # fmt: skip
        return tuple((name, ns) for name, ns in named if ns is not None)

    @property
    def time_ns(self) -> float:
        return max(ns for _, ns in self.parts)


@dataclass(frozen=True, slots=True)
class NoRoof:
    """The device lacks something that the work needs, or nobody knows how fast it is."""

    reason: str


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Roof over time: 1 is as fast as can be."""

    ratio: float
    roof: Roof


@dataclass(frozen=True, slots=True)
class Impossible:
    """Faster than the device can be: the time, the counted work or the ceiling is wrong."""

    reason: str
    roof: Roof


def roof(work: Work, ceilings: Ceilings) -> Roof | NoRoof:
    """NoRoof where a precision, or bytes on a wire, have no ceiling here."""
    for precision, _ in work.flops:
        if ceilings.flop_in(precision) is None:
            return NoRoof(f"{ceilings.device} does not multiply in {precision}, or nobody states how fast")
    for sent, rate, wire in (
        (work.link_bytes, ceilings.link, "scale-up link"), (work.network_bytes, ceilings.network, "network"),
    ):  # fmt: skip
        if sent and rate is None:
            return NoRoof(f"{ceilings.device}: the speed of its {wire} is not known; give what was measured")
    used = _rates(work, ceilings)
    times = {part: _ns(amounts) for part, amounts in used.items()}
    binds = max(times, key=lambda part: times[part])
    main = main_precision(work)
    basis = _basis([rate for _, rate in used[binds]])
    doubts = {f"{part}: {rate.disputed}": None for part, a in used.items() for _, rate in a if rate.disputed}
    return Roof(
        times["compute"], times["memory"], times.get("exponentials"), times.get("link"), times.get("network"), binds,
        basis, ceilings.ridge_flop_per_byte(main) if main else None, tuple(doubts), work.assumes,
    )  # fmt: skip


def efficiency(work: Work, ceilings: Ceilings, duration_ns: float) -> Efficiency | Impossible | NoRoof:
    """How near a measured duration came to the roof. Raises ValueError where the duration is not above 0.

    Impossible, for any part: more than 1.03 times a ceiling that was measured, or more than a peak.
    """
    if duration_ns <= 0:
        raise ValueError(f"a duration of {duration_ns} ns is none")
    found = roof(work, ceilings)
    if isinstance(found, NoRoof):
        return found
    for part, amounts in _rates(work, ceilings).items():
        limit_ns = _ns([(amount, _limit(rate)) for amount, rate in amounts])
        if duration_ns < limit_ns:
            return Impossible(_impossible(part, work, ceilings, _ns(amounts) / duration_ns), found)
    return Efficiency(found.time_ns / duration_ns, found)


def _rates(work: Work, ceilings: Ceilings) -> dict[Part, list[tuple[float, Rate]]]:
    """Amounts of each part beside the rate that they go at."""
    found: dict[Part, list[tuple[float, Rate]]] = {
        "compute": [(flop, rate) for p, flop in work.flops if (rate := ceilings.flop_in(p)) is not None],
        "memory": [(work.moved_bytes, ceilings.memory)] if work.moved_bytes else [],
    }
    others: tuple[tuple[Part, float, Rate | None], ...] = (
        ("exponentials", work.exp_count, ceilings.exps), ("link", work.link_bytes, ceilings.link),
        ("network", work.network_bytes, ceilings.network),
    )  # fmt: skip
    return found | {part: [(amount, rate)] for part, amount, rate in others if amount and rate is not None}


def _ns(amounts: list[tuple[float, Rate]]) -> float:
    return sum(amount / rate.per_s * S_NS for amount, rate in amounts)


def _basis(rates: list[Rate]) -> Basis:
    return "measured" if rates and all(rate.basis == "measured" for rate in rates) else "peak"


def _limit(rate: Rate) -> Rate:
    """The rate above which no measurement is believed."""
    per_s = rate.per_s * SLACK_RATIO if rate.basis == "measured" else rate.per_s
    capped = per_s if rate.peak_per_s is None else min(per_s, rate.peak_per_s)
    return Rate(capped, rate.basis, rate.source, rate.peak_per_s, rate.disputed)


def _impossible(part: Part, work: Work, ceilings: Ceilings, times: float) -> str:
    cause = "the time, the counted work or the ceiling is wrong"
    if part == "memory" and ceilings.l2_bytes is not None and work.moved_bytes <= ceilings.l2_bytes:
        cause = "the data fit in the L2, so they need not have come from memory"
    return f"{part}: {times:.2f} times what {ceilings.device} can do; {cause}"


def main_precision(work: Work) -> Precision | None:
    """The precision with the most flop; None where there are none."""
    return max(work.flops, key=lambda pair: pair[1])[0] if work.flops else None
