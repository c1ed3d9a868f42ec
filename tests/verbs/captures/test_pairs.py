"""Which kernels of two captures are the same work, on tables of a few lines."""

from __future__ import annotations

import pytest

from pellucid.verbs.captures.pairs import Kernels, Pair, Shares, overlap, pairs

OLD, NEW, OTHER = ("gemm", "old"), ("gemm", "new"), ("gemm", "other")


@pytest.mark.parametrize(
    ("places", "by"),
    [({1: 0.5, 2: 0.5}, ["place"]), ({1: 0.49, 2: 0.51}, ["removed", "added"]), ({}, ["removed", "added"])],
)
def test_half_of_their_places_make_two_names_one_kernel(places: Shares, by: list[str]) -> None:
    found = pairs(Kernels({OLD: 48}, {OLD: {1: 1.0}}), Kernels({NEW: 48}, {NEW: places}))
    assert [pair.by for pair in found] == by


def test_of_two_that_share_all_places_the_one_that_runs_as_often_is_taken() -> None:
    a = Kernels({OLD: 48}, {OLD: {1: 1.0}})
    b = Kernels({OTHER: 1, NEW: 47}, {OTHER: {1: 1.0}, NEW: {1: 1.0}})
    assert pairs(a, b) == [Pair(OLD, NEW, "place"), Pair(None, OTHER, "added")]


def test_more_places_in_common_come_before_a_likelier_count() -> None:
    a = Kernels({OLD: 48}, {OLD: {1: 0.6, 2: 0.4}})
    b = Kernels({OTHER: 48, NEW: 1}, {OTHER: {1: 1.0}, NEW: {1: 0.6, 2: 0.4}})
    assert pairs(a, b)[0] == Pair(OLD, NEW, "place")


def test_a_name_of_another_class_is_still_the_same_kernel() -> None:
    assert pairs(Kernels({("unknown", "k"): 1}), Kernels({("gemm", "k"): 1})) == [
        Pair(("unknown", "k"), ("gemm", "k"), "name")]  # fmt: skip


def test_an_overlap_counts_shared_places_only() -> None:
    assert overlap({1: 0.7, 2: 0.3}, {1: 0.4, 3: 0.6}) == 0.4
