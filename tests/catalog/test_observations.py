"""Rows of the observation matrix: what one has to say, and that what it names exists."""

from __future__ import annotations

import re

import pytest

from pellucid.catalog.load import Observation, facts, observations, read
from pellucid.core.units import unit_of
from pellucid.store.read import VIEWS
from pellucid.store.schema import TABLES

ROWS = observations()
every_row = pytest.mark.parametrize("name", ROWS)
SMALL = """
    [waiting_count]
    area = "kv_cache"
    meaning = "m"
    views = []
    needs = []
    facts = []
    over = "steps_count"
    at_least = 1
    absent = "a"
    worse = "higher"
"""


def test_a_row_is_read() -> None:
    assert read(SMALL, Observation, "o.toml")["waiting_count"].baseline is None


@pytest.mark.parametrize("text", [
    SMALL + 'colour = "red"\n', SMALL.replace('"higher"', '"up"'), SMALL.replace("kv_cache", "network"),
    SMALL.replace('absent = "a"', ""), SMALL.replace("at_least = 1", 'at_least = "1"'),
], ids=["unknown key", "unknown direction", "unknown area", "missing key", "wrong type"])  # fmt: skip
def test_what_is_not_in_the_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"o\.toml"):
        read(text, Observation, "o.toml")


@every_row
def test_a_row_has_its_unit_in_its_name(name: str) -> None:
    assert unit_of(name)


@every_row
def test_a_value_is_a_column_or_a_ratio_of_two(name: str) -> None:
    row = ROWS[name]
    assert bool(row.value) != bool(row.numerator and row.denominator)
    assert not (row.value and (row.numerator or row.denominator))
    assert not name.endswith("_ratio") or not row.value or name == "device_utilisation_ratio"   # a mean of ratios


@every_row
def test_its_columns_are_in_its_views(name: str) -> None:
    row = ROWS[name]
    text = "\n".join((VIEWS / "window" / f"{view}.sql").read_text() for view in row.views)
    named = {row.value, row.numerator, row.denominator, row.over, row.only_with} - {""}
    assert {n for n in named if not re.search(rf"AS {n}\b", text)} == set()


@every_row
def test_what_it_takes_from_pages_is_in_their_view(name: str) -> None:
    text, page = (VIEWS / "window" / "window_pages.sql").read_text(), ROWS[name].page
    named = {page.value, page.numerator, page.denominator, page.over} - {""} if page else set()
    assert {n for n in named if not re.search(rf"AS {n}\b", text)} == set()
    assert page is None or bool(page.value) != bool(page.numerator and page.denominator)


@every_row
def test_what_it_needs_exists(name: str) -> None:
    needs = [need.split(".") for need in ROWS[name].needs]
    assert needs and all(column in TABLES[table].names() for table, column in needs)
    assert [f for f in ROWS[name].facts if f not in facts()] == []


@every_row
def test_what_is_judged_has_limits_and_a_reason_and_what_is_not_has_none(name: str) -> None:
    row = ROWS[name]
    if row.worse == "neither":
        assert (row.watch_ratio, row.bad_ratio, row.least, row.because, row.baseline) == (0, 0, 0, "", None)
    else:
        assert 1 < row.watch_ratio <= row.bad_ratio
        assert row.least > 0, "a baseline of nothing cannot be divided by"
        assert len(row.because) > 20


@every_row
def test_a_baseline_has_a_source(name: str) -> None:
    row = ROWS[name]
    assert (row.baseline is None) == (row.baseline_source == "none")


def test_every_area_has_rows() -> None:
    assert {row.area for row in ROWS.values()} == {"prefill_decode", "kv_cache", "moe_speculation", "hardware"}
