"""The quick ways of sorting, counting and looking up give what the plain ones give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pellucid.trace.link import _looked_up, _order, distinct

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


@given(st.lists(st.integers(0, 9), max_size=30), st.sampled_from([1, 10**6]), st.lists(SMALL, max_size=30))
def test_the_first_of_equal_keys_is_found(keys: list[int], apart: int, wanted: list[int]) -> None:
    """Dense keys by a table, keys far apart by a search."""
    found = _looked_up(np.array(wanted, np.int64) * apart, np.array(keys, np.int64) * apart,
                       np.arange(100, 100 + len(keys)))  # fmt: skip
    assert found.tolist() == [100 + keys.index(key) if key in keys else -1 for key in wanted]
