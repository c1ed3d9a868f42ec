"""What would have been found: corruptions of known size put into the reference's own answers, and the test run on them.

    smallest_found(answers, table, groups, critical=3.1, random)  →  [0.02, 0.07, 0.05]      a share for each group

Corrupted is a share of tokens: each becomes one that is not among the likeliest, as probable as those which the
reference itself draws from there. A token drawn at random is far less probable, and what follows a wrong token, which
surprises a model too, is left as it was: what an engine really does wrong is found sooner. A try splits the answers to
each prompt in two, and one half stands for the candidate. The smallest share found in nine of ten tries is told. Half
against half is less than the verdict rests on: another reason why the verdict finds a little more than is said here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from pellucid.collect.client.scores import Floats, Ints
from pellucid.tune.fidelity.answers import (
    ABSURD,
    ABSURD_NATS,
    LOWEST_NATS,
    SURPRISE,
    UNLIKELY,
    Answered,
    Bools,
    Table,
    expected,
    rest,
    tail,
    unlikely,
)
from pellucid.tune.fidelity.permute import compare_once, grouped

FOUND_RATIO = 0.9
RATIOS = (0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7,
          1.0)  # fmt: skip
MOVED = [SURPRISE, UNLIKELY, ABSURD]     # what a wrong token changes at once


class Corruption:
    """Replaces tokens in answers, and gives the table as it is then."""

    def __init__(self, answers: Sequence[Answered], table: Table) -> None:
        tail_nats = tail(answers)
        self.table = table
        self.of_answer = np.repeat(np.arange(len(answers)), [len(a.scores) for a in answers])
        self.lengths = np.maximum(np.bincount(self.of_answer, minlength=len(answers)), 1).astype(np.float64)
        self.own = np.concatenate([_numbers(a, a.scores.logps, unlikely(a.scores), tail_nats) for a in answers])
        self.wrong = np.concatenate([
            _numbers(a, np.log(rest(a.scores)) + tail_nats, np.ones(len(a.scores), dtype=np.bool_), tail_nats)
            for a in answers
        ])  # fmt: skip

    def table_of(self, ratio: float, answers: Bools, random: np.random.Generator) -> Table:
        """With that share of the tokens of those answers replaced."""
        hit = (random.random(len(self.own)) < ratio) & answers[self.of_answer]
        tokens = np.where(hit[:, None], self.wrong, self.own)
        values = self.table.values.copy()
        for n, column in enumerate(MOVED):
            sums = np.bincount(self.of_answer, weights=tokens[:, n], minlength=len(self.lengths))
            values[:, column] = sums / self.lengths
        return replace(self.table, values=values, candidate=answers)


def _numbers(answer: Answered, logps: Floats, among_unlikely: Bools, tail_nats: float) -> Floats:
    """The statistics in `MOVED` (T, 3) of an answer's tokens, were their log-probabilities these."""
    surprise = np.maximum(logps, LOWEST_NATS) - expected(answer, tail_nats)
    return np.stack([surprise, among_unlikely, logps < ABSURD_NATS], axis=1).astype(np.float64)


def smallest_found(
    corruption: Corruption, groups: Sequence[frozenset[str]], critical: float, tries_count: int,
    random: np.random.Generator,
) -> list[float | None]:  # fmt: skip
    """For each group the least share of `RATIOS` found in nine of ten tries; None where not even all tokens are.
    `corruption` is of the reference's answers."""

    @cache
    def found_ratios(ratio: float) -> tuple[float, ...]:
        hits = np.zeros(len(groups))
        for _ in range(tries_count):
            half = halved(corruption.table.prompts, random)
            _, z = compare_once(grouped(corruption.table_of(ratio, half, random), groups))
            hits += z[:, MOVED].max(axis=1) >= critical
        return tuple(hits / tries_count)

    found: list[float | None] = []
    for n in range(len(groups)):
        place = bisect_left(range(len(RATIOS)), FOUND_RATIO, key=lambda at: found_ratios(RATIOS[at])[n])
        found.append(RATIOS[place] if place < len(RATIOS) else None)
    return found


def halved(prompts: Ints, random: np.random.Generator) -> Bools:
    """True for half of the answers to each prompt, drawn; the smaller half where their number is odd."""
    order = np.lexsort((random.random(len(prompts)), prompts))
    _, starts, counts = np.unique(prompts[order], return_index=True, return_counts=True)
    place = np.arange(len(prompts)) - np.repeat(starts, counts)
    picked = np.zeros(len(prompts), dtype=np.bool_)
    picked[order] = place < np.repeat(counts // 2, counts)
    return picked
