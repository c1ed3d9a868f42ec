"""Every time that fits is read to the nanosecond, as a float, as a text or as a whole number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from pellucid.trace.torch_profiler.clock import EXACT_BELOW_US, LONGEST_US, NotExact, many_digits, to_ns

LONGEST_FLOAT_NS = int(EXACT_BELOW_US) * 1000 - 1


def written(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


@given(st.lists(st.integers(0, LONGEST_FLOAT_NS), min_size=1, max_size=200))
@example([4458676524670502 + i for i in range(2000)])       # here the float's product is half a ns off
@example([LONGEST_FLOAT_NS - i for i in range(2000)])
def test_floats_are_exact_while_they_are_used(times_ns: list[int]) -> None:
    found, told = to_ns([float(written(ns)) for ns in times_ns])
    assert (found.tolist(), bool(told.all())) == (times_ns, True)


@given(st.lists(st.integers(0, int(LONGEST_US) * 1000 - 1000), min_size=1, max_size=50))
def test_texts_are_exact_as_far_as_int64_goes(times_ns: list[int]) -> None:
    found, told = to_ns([Raw(written(ns).encode()) for ns in times_ns])
    assert (found.tolist(), bool(told.all())) == (times_ns, True)


def test_a_longer_float_is_not_used() -> None:
    with pytest.raises(NotExact):
        to_ns([1712195495520883.123])
    with pytest.raises(NotExact):
        to_ns([None, 1712195495520883.123])


@pytest.mark.parametrize(("values", "times_ns", "told"), [
    ([1, 2.5, None], [1000, 2500, 0], [True, True, False]), ([], [], []), ([2**70, 1], [0, 1000], [False, True]),
    ([float("nan"), 1.0], [0, 1000], [False, True]), ([-1.5, -3], [-1500, -3000], [True, True]),
    ([Raw(b"1.5"), Raw(b""), Raw(b"null"), Raw(b"7")], [1500, 0, 0, 7000], [True, False, False, True]),
    ([1664000000000000, 7], [1664000000000000000, 7000], [True, True]),
])  # fmt: skip
def test_what_is_no_time_is_not_told(values: list[object], times_ns: list[int], told: list[bool]) -> None:
    found, known = to_ns(values)
    assert (np.where(known, found, 0).tolist(), known.tolist()) == (times_ns, told)


@pytest.mark.parametrize(("block", "long"), [
    (b'[{"ph": "X", "ts": 1712195495520883.123', True), (b'[{"ts": 5110987703826.016', False), (b'[{"ts": 1', False),
    (b'[{"ts": 1712195495520883, "ts":1712195495520883.5', True), (b'[{"ts": 1712195495520883}', False),
])  # fmt: skip
def test_long_times_are_seen_before_they_are_decoded(block: bytes, long: bool) -> None:
    assert many_digits(block) == long
