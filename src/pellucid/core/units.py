"""The only place where units convert, for rendering. Inside: int64 ns, bytes, ratios 0–1.

    >>> duration(1_234_000)
    '1.2 ms'
    >>> size(3 * 2**30)
    '3.0 GiB'
    >>> percent(0.934)
    '93%'
"""

from __future__ import annotations

import math

US_NS = 1_000
MS_NS = 1_000_000
S_NS = 1_000_000_000

_DURATIONS = ((S_NS, "s"), (MS_NS, "ms"), (US_NS, "µs"), (1, "ns"))
_LONG = ((48 * 3600 * S_NS, 86_400 * S_NS, "days"), (2 * 3600 * S_NS, 3600 * S_NS, "h"), (600 * S_NS, 60 * S_NS, "min"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_SPANS = {"s": S_NS, "m": 60 * S_NS, "h": 3600 * S_NS, "d": 86_400 * S_NS, "ms": MS_NS}


def duration(value_ns: float) -> str:
    """A duration in its natural unit, two significant digits or more: 350 µs, 1.2 ms, 34 ms, 5.1 s."""
    if value_ns == 0:
        return "0 ms"
    for least_ns, unit_ns, name in _LONG:
        if abs(value_ns) >= least_ns:
            return f"{_short(value_ns / unit_ns)} {name}"
    for unit_ns, name in _DURATIONS:
        if abs(value_ns) >= unit_ns:
            return f"{_short(value_ns / unit_ns)} {name}"
    return f"{value_ns:.0f} ns"


def size(value_bytes: float) -> str:
    """A size in binary units: 3.0 GiB."""
    for unit_bytes, name in _SIZES:
        if abs(value_bytes) >= unit_bytes:
            return f"{value_bytes / unit_bytes:.1f} {name}"
    return "0 B"


def percent(ratio: float) -> str:
    """A ratio 0–1 as %, with a decimal only below 10 %."""
    return f"{ratio:.1%}" if abs(ratio) < 0.0995 and ratio != 0 else f"{ratio:.0%}"


def counted(count: float | None, things: str) -> str:
    """How many there were, or that nobody saw them: 1,204 steps, steps not seen."""
    return f"{things} not seen" if count is None else f"{count:,.0f} {things}"


def parse_span_ns(text: str) -> int:
    """A span as a user types it (`90s`, `5m`, `1.5h`, `500ms`) to ns. Raises ValueError on anything else."""
    for suffix in ("ms", "s", "m", "h", "d"):
        if text.endswith(suffix):
            number = _float(text[: -len(suffix)])
            if not 0 < number < math.inf:
                break
            return int(number * _SPANS[suffix])
    raise ValueError(f"{text!r} is not a span of time; write it as 90s, 5m or 1.5h")


def parse_size_bytes(text: str) -> float:
    """A size as a user types it (`2GiB`, `512MiB`, `900000B`) to bytes. Raises ValueError on anything else."""
    for unit_bytes, name in _SIZES:
        if text.endswith(name):
            number = _float(text[: -len(name)])
            if not 0 <= number < math.inf:
                break
            return number * unit_bytes
    raise ValueError(f"{text!r} is not a size; write it as 2GiB, 512MiB or 900000B")


def unit_of(column: str) -> str:
    """The unit a column name carries, by its suffix; "" for text, ids and labels."""
    for suffix, unit in (
        ("_per_s", "1/s"), ("_ns", "ns"), ("_s", "s"), ("_bytes", "bytes"), ("_tokens", "tokens"), ("_flop", "flop"),
        ("_ratio", "ratio"), ("_count", "count"), ("_hz", "Hz"), ("_watts", "W"), ("_joules", "J"),
        ("_celsius", "°C"),
    ):  # fmt: skip
        if column.endswith(suffix):
            return unit
    return ""


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 10 else f"{value:,.0f}"
