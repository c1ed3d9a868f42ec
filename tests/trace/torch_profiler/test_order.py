"""The quick ways of sorting, counting and looking up give what the plain ones give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.trace.link import MANY, _distinct_placed, _looked_up, _order, distinct

SMALL = st.integers(-3, 3)
LARGE = st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(SMALL | LARGE, SMALL), max_size=60))
def test_rows_are_ordered_as_by_a_stable_sort(rows: list[tuple[int, int]]) -> None:
    first, second = np.array(rows, np.int64).reshape(len(rows), 2).T
    found = _order(first, second)
    wanted = sorted(range(len(rows)), key=rows.__getitem__)
    assert (list(range(len(rows))) if found is None else found.tolist()) == wanted


def test_rows_in_order_are_left_alone() -> None:
    assert _order(np.array([1, 1, 2]), np.array([5, 5, 0])) is None
    assert _order(np.array([1, 1, 2]), np.array([5, 4, 0])) is not None


@given(st.lists(SMALL, max_size=60) | st.lists(LARGE, max_size=60))
def test_distinct_values_are_sorted_and_point_back(values: list[int]) -> None:
    unique, which = distinct(np.array(values, np.int64))
    assert unique.tolist() == sorted(set(values))
    assert unique[which].tolist() == values


@pytest.mark.parametrize("different", [1, 50, 3000, 60_000])
def test_many_distinct_values_are_found_whatever_place_they_fall_on(different: int) -> None:
    """With 3,000 of them dozens lose their place to another; 60,000 are sorted."""
    pick = np.random.default_rng(different)
    values = pick.integers(-(2**62), 2**62, different)[pick.integers(0, different, 2 * MANY)]
    unique, which = distinct(values)
    assert (np.diff(unique) > 0).all() and np.array_equal(unique[which], values)
    assert (_distinct_placed(values) is None) == (different == 60_000)


@given(st.lists(st.integers(0, 9), max_size=30), st.sampled_from([1, 10**6]), st.lists(SMALL, max_size=30))
def test_the_first_of_equal_keys_is_found(keys: list[int], apart: int, wanted: list[int]) -> None:
    """Dense keys by a table, keys far apart by a search."""
    found = _looked_up(np.array(wanted, np.int64) * apart, np.array(keys, np.int64) * apart,
                       np.arange(100, 100 + len(keys)))  # fmt: skip
    assert found.tolist() == [100 + keys.index(key) if key in keys else -1 for key in wanted]
