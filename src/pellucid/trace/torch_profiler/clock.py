"""Microseconds of a trace, in whatever digits → int64 nanoseconds, without loss.

    to_ns([b"1712195495520883.123", 5, None])  → ([1712195495520883123, 5000, 0], [True, True, False])

Floats are used while they are exact. Times since 1970 are not: NotExact asks for the block to be decoded again with
times left as texts.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from pellucid.trace.timeline import NOT_TOLD, Longs
from pellucid.trace.torch_profiler.events import Event

NS_IN_US = 1000
# A float64 of microseconds below 2**43 is within half a nanosecond of the decimal it was read from: 2**43 us, 101 days.
# What is behind the point is multiplied alone: the product of all of it would be rounded once more.
EXACT_BELOW_US = float(2**43)
LONGEST_US = float(2**62 // NS_IN_US)       # of what fits in int64 nanoseconds
THREE_DECIMALS = re.compile(rb"(?:\d{1,16}\.\d{3},)*\d{1,16}\.\d{3}")      # as the profiler prints a time
LOOKED_AT_BYTES = 1 << 12                   # of a block: a few events
MANY_DIGITS = re.compile(rb'"ts"\s*:\s*\d{14,}\.\d')


class NotExact(Exception):
    """The floats of this block stand for more digits than they have."""


def many_digits(block: bytes) -> bool:
    """Whether times look too long for floats: a guess that saves decoding twice."""
    return MANY_DIGITS.search(block, 0, LOOKED_AT_BYTES) is not None


def times(events: Sequence[Event]) -> tuple[Longs, Longs, NDArray[np.bool]]:
    """(start, duration, whether both are told), in nanoseconds. Raises NotExact."""
    start_ns, started = to_ns([e.ts for e in events])
    duration_ns, lasted = to_ns([e.dur for e in events], about=True)     # none of 101 days is right anyway
    return start_ns, duration_ns, started & lasted & (duration_ns >= 0)


def to_ns(values_us: Sequence[Any], about: bool = False) -> tuple[Longs, NDArray[np.bool]]:
    """Microseconds as int, float, text, Decimal or None → nanoseconds, and which of them are told.

    Raises NotExact where a float is too long to be exact, unless the value is wanted only about.
    """
    if values_us and type(values_us[0]) is Raw:
        return _texts_to_ns(values_us)
    with contextlib.suppress(struct.error, OverflowError):      # twice as fast as np.array
        floats = np.frombuffer(struct.pack(f"{len(values_us)}d", *values_us))
        if not floats.size or np.abs(floats).max() < EXACT_BELOW_US:        # False with a NaN among them
            return _floats_to_ns(floats), np.ones(floats.size, bool)
    try:
        read = np.array(values_us)
    except (OverflowError, ValueError):     # beyond int64; a text beside numbers, where an event had to be bent
        return _each_to_ns(values_us)
    if read.dtype == np.int64 and (not read.size or np.abs(read).max() < LONGEST_US):
        return read * NS_IN_US, np.ones(read.size, bool)
    if read.dtype != np.float64:
        if not about and any(type(v) is float and abs(v) >= EXACT_BELOW_US for v in values_us):
            raise NotExact
        return _each_to_ns(values_us)
    size = np.abs(read)
    good = size < LONGEST_US                # False for NaN
    if not about and (good & (size >= EXACT_BELOW_US)).any():
        raise NotExact
    return _floats_to_ns(np.where(good, read, 0.0)), good


def _floats_to_ns(us: NDArray[np.float64]) -> Longs:
    whole = np.floor(us)
    return whole.astype(np.int64) * NS_IN_US + np.rint((us - whole) * NS_IN_US).astype(np.int64)


def _texts_to_ns(values_us: Sequence[Any]) -> tuple[Longs, NDArray[np.bool]]:
    try:
        joined = b",".join(values_us)
    except TypeError:       # an event that had to be bent has numbers
        return _each_to_ns(values_us)
    if not THREE_DECIMALS.fullmatch(joined):
        return _each_to_ns(values_us)
    return np.fromstring(joined.replace(b".", b""), np.int64, sep=","), np.ones(len(values_us), bool)


def _each_to_ns(values_us: Sequence[Any]) -> tuple[Longs, NDArray[np.bool]]:
    found = [_one_to_ns(value) for value in values_us]
    return longs([0 if v is None else v for v in found]), np.array([v is not None for v in found], bool)


def _one_to_ns(value: Any) -> int | None:
    if type(value) is Raw:
        try:
            value = Decimal(bytes(value).decode())
        except (InvalidOperation, UnicodeDecodeError):
            return None
    return round(value * NS_IN_US) if value is not None and abs(value) < LONGEST_US else None


def longs(values: Sequence[Any]) -> Longs:
    """What is no int64, nor a text of one, is not told."""
    with contextlib.suppress(struct.error):     # twice as fast as np.array
        return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
    try:
        return np.array(values, np.int64)
    except (OverflowError, ValueError, TypeError):
        fit = [type(v) is int and -(2**63) <= v < 2**63 for v in values]
        return np.array([v if ok else NOT_TOLD for v, ok in zip(values, fit, strict=True)], np.int64)
