"""The permutation test: its level, its symmetries, and small cases that are counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE, Answered, Table, measured, once
from pellucid.tune.fidelity.permute import Compared, compare, differed, exchange_errors, grouped, standardised
from tests.tune.fidelity.made import shown

ALL = [frozenset({"chat", "code"})]


def table(rows: list[tuple[int, str, bool, float]]) -> Table:
    """(prompt, task, candidate?, value)"""
    return Table(
        np.array([[value] for *_, value in rows], dtype=float), np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=bool), tuple(row[1] for row in rows), np.zeros(len(rows), dtype=bool),
    )  # fmt: skip


def drawn(seed: int, prompts: int, shift: float = 0.0, answers: int = 2) -> Table:
    random = np.random.default_rng(seed)
    rows = []
    for prompt in range(prompts):
        level = random.normal(0, 3)
        for n in range(3 * answers):
            candidate = n < answers
            value = level + random.normal() + shift * candidate
            rows.append((prompt, "chat" if prompt % 2 else "code", candidate, value))
    return table(rows)


def compared(of: Table, draws: int = 199, seed: int = 0, groups: list[frozenset[str]] | None = None) -> Compared:
    return compare(grouped(of, groups or ALL), draws, 0.05, np.random.default_rng(seed))


@pytest.mark.slow
def test_the_level_is_kept() -> None:
    """Of 1,000 tables without any difference 5 in 100 are found at 5 %, as far as a binomial strays in 999 of 1,000."""
    groups = [*ALL, frozenset({"chat"}), frozenset({"code"})]
    found = sum(bool((compared(drawn(n, 6), 99, n, groups).adjusted <= 0.05).any()) for n in range(1000))
    low, high = stats.binom.interval(0.999, 1000, 0.05)
    assert low <= found <= high


@pytest.mark.slow
def test_answers_of_whole_numbers_with_ties_keep_the_level() -> None:
    def coarse(n: int) -> Table:
        of = drawn(n, 6)
        return replace(of, values=np.round(of.values / 2))

    found = sum(bool((compared(coarse(n), 99, n).adjusted <= 0.05).any()) for n in range(1000))
    assert found <= stats.binom.ppf(0.999, 1000, 0.05)


def greedy(random: np.random.Generator) -> list[Answered]:
    """Batches of another shape make an arm say, all of it, something shorter or longer than another time."""
    answers = []
    for prompt in range(12):
        for arm, later in ((REFERENCE, False), (CANDIDATE, False), (REFERENCE, True)):
            count = int(random.choice([5, 25]))
            scores = shown(np.zeros((count, 60)), np.full(count, prompt, dtype=np.int64))
            answers += [Answered(prompt, "chat", arm, scores, "", 0.0, later=later)] * 2
    return answers


@pytest.mark.slow
def test_greedy_answers_that_round_otherwise_keep_the_level() -> None:
    def found(n: int) -> bool:
        groups = grouped(measured(once(greedy(np.random.default_rng(n)))), [frozenset({"chat"})])
        return bool((compare(groups, 199, 0.05, np.random.default_rng(n)).adjusted <= 0.05).any())

    assert sum(found(n) for n in range(300)) <= stats.binom.ppf(0.999, 300, 0.05)


def test_a_shift_is_found_although_prompts_differ_more_than_arms() -> None:
    assert compared(drawn(1, 20, shift=1.0)).adjusted[0, 0] <= 0.01
    assert compared(drawn(1, 20)).adjusted[0, 0] > 0.05


def test_two_prompts_of_one_answer_each_are_counted_by_hand() -> None:
    """Four exchanges, differences 3, 1, -1, -3: half of them are at least as far from 0 as 3."""
    of = table([(0, "chat", True, 2.0), (0, "chat", False, 0.0), (1, "chat", True, 4.0), (1, "chat", False, 0.0)])
    found = compared(of, draws=3999)
    assert found.differences[0, 0] == pytest.approx(3.0)
    assert found.adjusted[0, 0] == pytest.approx(0.5, abs=0.03)


def test_one_prompt_of_one_answer_can_never_differ() -> None:
    assert compared(table([(0, "chat", True, 9.0), (0, "chat", False, 0.0)])).adjusted[0, 0] == 1.0


def test_answers_that_are_all_equal_differ_by_nothing() -> None:
    found = compared(table([(p, "chat", c, 0.1 + 0.2) for p in range(9) for c in (True, False, False)]))
    assert (found.differences[0, 0], found.errors[0, 0], found.adjusted[0, 0]) == (pytest.approx(0.0), 0.0, 1.0)


def test_a_prompt_that_only_one_arm_answered_says_nothing() -> None:
    of = drawn(3, 8)
    more = table([(99, "chat", True, 1e6), (98, "code", False, -1e6)])
    both = Table(np.vstack([of.values, more.values]), np.append(of.prompts, more.prompts),
                 np.append(of.candidate, more.candidate), of.tasks + more.tasks, np.append(of.later, more.later))
    assert compared(both).differences[0, 0] == pytest.approx(compared(of).differences[0, 0])


def test_a_group_without_prompts_differs_by_nothing() -> None:
    found = compared(drawn(1, 4), groups=[*ALL, frozenset({"nobody's"})])
    assert (found.differences[1, 0], found.adjusted[1, 0], found.freedom[1]) == (0.0, 1.0, 0.0)


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_arms_exchanged_are_the_same_difference_with_the_other_sign(seed: int, prompts: int) -> None:
    of = drawn(seed, prompts, shift=0.5)
    one, other = grouped(of, ALL), grouped(replace(of, candidate=~of.candidate), ALL)
    a, b = differed(one, one.candidate[None]), differed(other, other.candidate[None])
    assert a == pytest.approx(-b)
    assert exchange_errors(one) == pytest.approx(exchange_errors(other))


@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0.1, 10))
def test_a_shift_or_a_scale_of_all_answers_changes_no_p(seed: int, shift: float, scale: float) -> None:
    of = drawn(seed, 5, shift=0.5)
    moved = replace(of, values=of.values * scale + shift)
    assert compared(moved).adjusted == pytest.approx(compared(of).adjusted)


@given(st.integers(0, 10**6))
def test_the_order_of_the_answers_changes_no_difference(seed: int) -> None:
    of = drawn(seed, 5)
    order = np.random.default_rng(seed).permutation(len(of.prompts))
    mixed = Table(of.values[order], of.prompts[order], of.candidate[order], tuple(of.tasks[n] for n in order), of.later)
    a, b = grouped(of, ALL), grouped(mixed, ALL)
    assert differed(a, a.candidate[None]) == pytest.approx(differed(b, b.candidate[None]))


def test_the_error_is_that_of_the_exchanges() -> None:
    """The formula against many exchanges, with unequal numbers of answers."""
    of = drawn(5, 7)
    groups = grouped(of.only(np.arange(len(of.prompts)) % 11 != 0), ALL)
    random = np.random.default_rng(0)
    keys = random.random((20_000, *groups.valid.shape))
    keys[:, ~groups.valid] = np.inf
    labels = keys.argsort(axis=2).argsort(axis=2) < groups.candidate.sum(axis=1)[:, None]
    assert differed(groups, labels).std(axis=0) == pytest.approx(exchange_errors(groups), rel=0.03)


def test_the_critical_value_is_where_the_level_begins() -> None:
    found = compared(drawn(2, 10, shift=0.8), draws=1999)
    z = standardised(found.differences, found.errors)
    assert ((found.adjusted <= 0.05) == (z >= found.critical)).all()
