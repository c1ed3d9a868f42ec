"""What a trial starts next, when it leaves two engines, and what leaks."""

from __future__ import annotations

import pytest

from pellucid.verbs.loop.trial.pairing import growth
from pellucid.verbs.loop.trial.turns import first_share_s, leave, next_kind

MIB = 2**20


def test_the_trial_starts_first_then_noise_then_places_are_exchanged() -> None:
    assert next_kind(0, 0, is_told=False) == "trial"
    assert next_kind(1, 3, is_told=True) == "noise"
    assert next_kind(1, 4, is_told=False) == "trial"


def test_after_two_starts_only_noise_can_help_and_only_where_the_pairs_have_a_word() -> None:
    assert next_kind(2, 4, is_told=True) == "noise"
    assert next_kind(2, 12, is_told=True) is None
    assert next_kind(2, 4, is_told=False) is None


@pytest.mark.parametrize(("word", "rows", "told", "over", "why"), [
    ("worse", [3], 0, False, "decided"),
    ("inconclusive", [9], 2, False, ""),
    ("inconclusive", [9], 3, False, "told"),               # two more than were needed
    ("inconclusive", [9], 0, True, "its part is used"),
    ("inconclusive", [9, 8], 0, False, ""),
    ("inconclusive", [9, 9], 0, False, "told"),            # no pair of the first start is left to go with another
    ("inconclusive", [9, 5], 1, False, "told"),
])  # fmt: skip
def test_engines_are_left_when_they_have_told_what_they_can(
    word: str, rows: list[int], told: int, over: bool, why: str
) -> None:
    assert leave(word, rows, told, over) == why


def test_the_first_start_leaves_time_for_what_has_to_follow() -> None:
    assert first_share_s(left_s=600, boot_s=40, pair_s=20, noise_starts=4) == 280
    assert first_share_s(left_s=600, boot_s=40, pair_s=10, noise_starts=0) == 100      # four starts of 40 + 50 s
    assert first_share_s(left_s=60, boot_s=40, pair_s=10, noise_starts=0) == 0


def test_memory_that_grows_from_block_to_block_leaks() -> None:
    seen = [1000 * MIB + 40 * i * MIB for i in range(9)]
    assert growth(seen) == "its processes held 1.1 GiB and, 6 blocks later, 1.3 GiB"


@pytest.mark.parametrize("seen", [
    [1000] * 9,
    [500, 900, 1000, 1000, 1010, 1000, 1005, 1000, 1010],      # caches that fill, and then stay
    [1000, 1200, 1000, 1200, 1000, 1200, 1000, 1200, 1000],    # up and down
    [1000, 1050, 1100, 1150, 1200],                            # too few to say
])  # fmt: skip
def test_memory_that_settles_does_not(seen: list[int]) -> None:
    assert growth([n * MIB for n in seen]) == ""
