from __future__ import annotations

import pytest

from pellucid.core.units import counted, duration, parse_size_bytes, parse_span_ns, percent, size, unit_of


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [(0, "0 ms"), (999, "999 ns"), (1_000, "1.0 µs"), (350_000, "350 µs"), (1_234_000, "1.2 ms"), (34e6, "34 ms"),
     (5.1e9, "5.1 s"), (3_600e9, "60 min"), (-2e6, "-2.0 ms")],
)  # fmt: skip
def test_a_duration_is_shown_in_its_natural_unit(value_ns: float, text: str) -> None:
    assert duration(value_ns) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1023, "1023.0 B"), (1024, "1.0 KiB"), (3 * 2**30, "3.0 GiB")])
def test_sizes_are_binary(value: int, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(("ratio", "text"), [(0, "0%"), (0.02, "2.0%"), (0.0994, "9.9%"), (0.0996, "10%"), (1, "100%")])
def test_a_percentage_has_a_decimal_only_below_ten(ratio: float, text: str) -> None:
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("text", "ns"),
    [("90s", 90 * 10**9), ("5m", 300 * 10**9), ("1.5h", 5400 * 10**9), ("500ms", 5 * 10**8), ("2d", 172_800 * 10**9)],
)
def test_a_span_is_read_as_people_write_it(text: str, ns: int) -> None:
    assert parse_span_ns(text) == ns


def test_a_count_nobody_saw_is_said_in_words() -> None:
    assert [counted(n, "steps") for n in (1204, 0, None)] == ["1,204 steps", "0 steps", "steps not seen"]


@pytest.mark.parametrize("text", ["", "5", "s", "0s", "-5m", "nans", "infs", "1e999h", "soon", "5 parsecs"])
def test_what_is_no_span_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="is not a span of time"):
        parse_span_ns(text)


@pytest.mark.parametrize(
    ("column", "unit"),
    [("end_ns", "ns"), ("steps_per_s", "1/s"), ("interval_s", "s"), ("hit_ratio", "ratio"), ("sm_clock_hz", "Hz"),
     ("request_id", ""), ("tokens", ""), ("status", "")],
)  # fmt: skip
def test_the_unit_is_the_longest_suffix_that_fits(column: str, unit: str) -> None:
    assert unit_of(column) == unit


@pytest.mark.parametrize(("text", "size_bytes"), [("2GiB", 2**31), ("1.5MiB", 1.5 * 2**20), ("0B", 0), ("7KiB", 7168)])
def test_a_size_as_it_is_typed(text: str, size_bytes: float) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["2G", "2GB", "GiB", "-1GiB", "nanB", "", "2 gib"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2GiB"):
        parse_size_bytes(text)
