"""Did two arms answer the same prompts alike? Labels are exchanged within each prompt, and the largest difference kept.

    prompt 1   candidate: a b   reference: c d e f       one draw:   candidate: c f   reference: a b d e
    prompt 2   …                                                      …

Answers to one prompt are alike, so labels never leave their prompt. Where the arms are the same, every such exchange
was as probable as what was seen: the share of exchanges with a difference at least as large is a p-value that is exact,
ties and small numbers included. Of all tasks and statistics the largest standardised difference of each draw is kept
(maxT; Westfall and Young, Resampling-based multiple testing, Wiley 1993): the error is that of all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.collect.client.scores import Floats
from pellucid.tune.fidelity.answers import Bools, Table

DRAWS_AT_ONCE = 256
TIE = 1e-9               # sums of the same numbers in another order differ by rounding


@dataclass(frozen=True, slots=True)
class Groups:
    """The answers by prompt (P prompts of at most M answers), and which prompts each of G groups is of."""

    values: Floats           # (P, M, F), 0 where there is no answer
    valid: Bools             # (P, M)
    candidate: Bools         # (P, M)
    members: Bools           # (G, P)

    def counts(self) -> tuple[Floats, Floats]:
        """Answers of candidate and reference to each prompt."""
        candidate = self.candidate.sum(axis=1).astype(np.float64)
        return candidate, self.valid.sum(axis=1) - candidate

    def weights(self) -> Floats:
        """(P,) what a prompt's difference weighs: none where an arm has no answer."""
        candidate, reference = self.counts()
        return candidate * reference / np.maximum(candidate + reference, 1.0)


@dataclass(frozen=True, slots=True)
class Compared:
    """G groups, F statistics."""

    differences: Floats      # (G, F) candidate - reference, mean over prompts
    errors: Floats           # (G, F) standard deviation of that under exchange; 0 where all answers are equal
    freedom: Floats          # (G,) degrees of freedom of the errors
    adjusted: Floats         # (G, F) p-values of all of them together
    critical: float          # a standardised difference above it is found at the level asked for


def grouped(table: Table, groups: Sequence[frozenset[str]]) -> Groups:
    """Each group is a set of tasks."""
    prompts, place = np.unique(table.prompts, return_inverse=True)
    order = np.argsort(place, kind="stable")
    slot = np.empty(len(place), dtype=np.int64)
    counts = np.bincount(place, minlength=len(prompts))
    slot[order] = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(prompts), int(counts.max(initial=0)))
    values = np.zeros((*shape, table.values.shape[1]))
    valid, candidate = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    values[place, slot], valid[place, slot], candidate[place, slot] = table.values, True, table.candidate
    task_of = {int(p): task for p, task in zip(place, table.tasks, strict=True)}
    members = np.array([[task_of[p] in group for p in range(len(prompts))] for group in groups], dtype=np.bool_)
    return Groups(values, valid, candidate, members.reshape(len(groups), len(prompts)))


def compare(groups: Groups, draws_count: int, level: float, random: np.random.Generator) -> Compared:
    """`level`: of the critical value. Groups of which no prompt has both arms get a difference of 0 and p = 1."""
    differences, seen = compare_once(groups)
    errors = exchange_errors(groups)
    largest = np.concatenate([
        standardised(differed(groups, labels), errors).max(axis=(1, 2), initial=0.0)
        for labels in _exchanges(groups, draws_count, random)
    ])  # fmt: skip
    at_least = (largest[:, None, None] >= seen[None] * (1 - TIE)).sum(axis=0)
    weighed = groups.weights() > 0
    freedom = (groups.members * (weighed * (groups.valid.sum(axis=1) - 1))).sum(axis=1)
    return Compared(differences, errors, freedom, (1 + at_least) / (1 + draws_count),
                    float(np.quantile(largest, 1 - level, method="higher")))  # fmt: skip


def compare_once(groups: Groups) -> tuple[Floats, Floats]:
    """Differences (G, F), and the same in errors."""
    differences: Floats = differed(groups, groups.candidate[None])[0]
    return differences, standardised(differences, exchange_errors(groups))


def differed(groups: Groups, labels: Bools) -> Floats:
    """(B, G, F) of B ways to label the answers (B, P, M) as the candidate's."""
    candidate, reference = groups.counts()
    total = groups.values.sum(axis=1)
    sums = np.einsum("bpm,pmf->bpf", labels.astype(np.float64), groups.values, optimize=True)
    of_prompt = sums / np.maximum(candidate, 1)[:, None] - (total - sums) / np.maximum(reference, 1)[:, None]
    found: Floats = np.einsum("gp,bpf->bgf", _shares(groups), of_prompt, optimize=True)
    return found


def exchange_errors(groups: Groups) -> Floats:
    """(G, F): labels that are drawn without replacement within a prompt of m answers have a difference of means with
    variance s²(1/c + 1/r), s² the prompt's variance with m - 1 (Cochran, Sampling techniques, Wiley 1977, ch. 2)."""
    candidate, reference = groups.counts()
    count = groups.valid.sum(axis=1)
    mean = groups.values.sum(axis=1) / np.maximum(count, 1)[:, None]
    squares = (((groups.values - mean[:, None]) * groups.valid[..., None]) ** 2).sum(axis=1)
    variance = squares / np.maximum(count - 1, 1)[:, None]
    variance *= (1 / np.maximum(candidate, 1) + 1 / np.maximum(reference, 1))[:, None]
    found: Floats = np.sqrt(np.einsum("gp,pf->gf", _shares(groups) ** 2, variance))
    rounding = TIE * (1 + np.abs(mean).max(initial=0.0))
    found[found < rounding] = 0.0
    return found


def standardised(differences: Floats, errors: Floats) -> Floats:
    """|difference| in errors; 0 where exchange changes nothing."""
    found: Floats = np.abs(differences) / np.where(errors > 0, errors, np.inf)
    return found


def _shares(groups: Groups) -> Floats:
    """(G, P) weights that sum to 1, or to 0 where a group has no prompt with both arms."""
    weights = groups.members * groups.weights()
    total = weights.sum(axis=1, keepdims=True)
    found: Floats = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return found


def _exchanges(groups: Groups, draws_count: int, random: np.random.Generator) -> Any:
    """Blocks (B, P, M) of labels: in each prompt as many candidates as there are, drawn among its answers."""
    candidate = groups.candidate.sum(axis=1)
    for start in range(0, draws_count, DRAWS_AT_ONCE):
        keys = random.random((min(DRAWS_AT_ONCE, draws_count - start), *groups.valid.shape))
        keys[:, ~groups.valid] = np.inf
        yield keys.argsort(axis=2).argsort(axis=2) < candidate[:, None]
