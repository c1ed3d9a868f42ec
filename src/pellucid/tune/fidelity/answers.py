"""Answers and what the reference says of their tokens → a number for each answer and statistic.

    table = measured([Answered(prompt=0, task="chat", arm=CANDIDATE, scores=…, text="…"), …])
    table.values[:, SURPRISE]        nats per token, beyond what the reference expects of its own

    token            p(token) on the reference     expected of this position     surprise
    "harbour"        ln 0.30 = -1.2                -1.9                          +0.7
    "xq"             ln 1e-7 = -16.1               -1.9                          -14.2     ← hardly of the reference

Expected is the mean log-probability of a draw at the temperature asked for. It is subtracted because it is the larger
part of the variance and says nothing of who sampled: between gemma-3-270m's answers to one copying prompt the standard
deviation falls from 1.02 to 0.23. The test is right whatever is subtracted, as long as it is the same for both arms.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.collect.client.scores import Floats, Ints, Scores

Bools = np.ndarray[Any, np.dtype[np.bool_]]

REFERENCE, CANDIDATE = "reference", "candidate"
LOWEST_NATS = -30.0      # one token of no probability must not outweigh a thousand others
ABSURD_NATS = -13.0      # of gemma-3-270m's own tokens 2 to 3 in 1,000 are below; of tokens drawn at random most
LEAST = 1e-12            # probability below which a rest is rounding
GRAM = 4                 # tokens; a repeated run of so many is a loop or a quotation, rarely chance


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer of one arm. `scores` are the reference's."""

    prompt: int                          # answers with the same number were given to the same prompt
    task: str
    arm: str
    scores: Scores
    text: str
    temperature: float | None = None     # as asked; None is taken as 1 where an expectation is formed
    wants_json: bool = False
    later: bool = False                  # of the reference: sampled after the candidate, not before


@dataclass(frozen=True, slots=True)
class Statistic:
    name: str
    unit: str
    says: str
    negligible: float                    # a difference up to this is none, however surely it is there


STATISTICS = (
    Statistic("surprise", "nats per token", "log-probability on the reference beyond the expected", 0.002),
    Statistic("unlikely", "ratio", "tokens that are not among the reference's likeliest", 0.0),
    Statistic("absurd", "ratio", f"tokens with a log-probability below {ABSURD_NATS:g} nats", 0.0),
    Statistic("repetition", "ratio", f"runs of {GRAM} tokens that the answer had before", 0.0),
    Statistic("length", "ln tokens", "logarithm of the answer's length", 0.0),
    Statistic("twins", "ratio", "answers that another answer to the same prompt equals", 0.0),
    Statistic("not_json", "ratio", "answers that are no JSON where JSON was asked for", 0.0),
)
SURPRISE, UNLIKELY, ABSURD, REPETITION, LENGTH, TWINS, NOT_JSON = range(len(STATISTICS))


@dataclass(frozen=True, slots=True)
class Table:
    """A row for each answer, in the order given."""

    values: Floats           # (answers, statistics)
    prompts: Ints            # (answers,)
    candidate: Bools         # (answers,)
    tasks: tuple[str, ...]   # of each answer
    later: Bools

    def only(self, rows: Bools) -> Table:
        tasks = tuple(task for task, kept in zip(self.tasks, rows, strict=True) if kept)
        return Table(self.values[rows], self.prompts[rows], self.candidate[rows], tasks, self.later[rows])


def once(answers: Sequence[Answered]) -> list[Answered]:
    """Without greedy answers that say again what the same arm said at the same time.

    These are one answer given twice, since nothing is drawn, and where batches of another shape round otherwise, all of
    an arm differ together: taken as two they would make the test twice as sure.
    """
    kept: dict[object, Answered] = {}
    for number, a in enumerate(answers):
        greedy = a.temperature is not None and a.temperature <= 0
        kept.setdefault((a.prompt, a.arm, a.later, a.scores.ids.tobytes()) if greedy else number, a)
    return list(kept.values())


def measured(answers: Sequence[Answered]) -> Table:
    tail_nats = tail(answers)
    said = Counter((a.prompt, a.scores.ids.tobytes()) for a in answers)
    rows = [_row(a, tail_nats, said[a.prompt, a.scores.ids.tobytes()] > 1) for a in answers]
    values = np.array(rows, dtype=np.float64).reshape(len(answers), len(STATISTICS))
    return Table(
        values,
        np.array([a.prompt for a in answers], dtype=np.int64),
        np.array([a.arm == CANDIDATE for a in answers], dtype=np.bool_),
        tuple(a.task for a in answers),
        np.array([a.later for a in answers], dtype=np.bool_),
    )


def tail(answers: Sequence[Answered]) -> float:
    """How far below the probability of all unlikely tokens together the unlikely ones that were drawn are, in nats.

    A mean over both arms: that it is measured favours none of them.
    """
    drawn = [(a.scores.logps - np.log(rest(a.scores)))[unlikely(a.scores)] for a in answers]
    found = np.concatenate([*drawn, np.zeros(0)])
    return float(np.maximum(found, LOWEST_NATS).mean()) if len(found) else 0.0


def _row(answer: Answered, tail_nats: float, twin: bool) -> tuple[float, ...]:
    if not len(answer.scores):
        return (0.0, 0.0, 0.0, 0.0, 0.0, float(twin), float(answer.wants_json))
    return (
        float(np.mean(surprises(answer, tail_nats))),
        float(np.mean(unlikely(answer.scores))),
        float(np.mean(answer.scores.logps < ABSURD_NATS)),
        repetition(answer.scores.ids),
        float(np.log1p(len(answer.scores))),
        float(twin),
        float(answer.wants_json and not is_json(answer.text)),
    )


def surprises(answer: Answered, tail_nats: float) -> Floats:
    """Nats of each token (T,)."""
    return np.maximum(answer.scores.logps, LOWEST_NATS) - expected(answer, tail_nats)


def expected(answer: Answered, tail_nats: float) -> Floats:
    """Mean log-probability (T,) of a draw at the answer's temperature.

    All tokens that are not among the likeliest are taken to be `tail_nats` below the probability they have together,
    but no likelier than the last of the likeliest, and so many that they add up to it.
    """
    top = np.maximum(answer.scores.top_logps, LOWEST_NATS)
    if answer.temperature is not None and answer.temperature <= 0:
        return top[:, 0]
    heat = 1.0 if answer.temperature is None else answer.temperature
    together = np.log(rest(answer.scores))
    of_tail = np.minimum(together + tail_nats, top[:, -1])
    weights = np.exp((top - top[:, :1]) / heat)
    tail_weight = np.exp((of_tail - top[:, 0]) / heat + together - of_tail)
    found: Floats = ((weights * top).sum(axis=1) + tail_weight * of_tail) / (weights.sum(axis=1) + tail_weight)
    return found


def rest(scores: Scores) -> Floats:
    """Probability (T,) that the likeliest tokens leave."""
    left: Floats = np.clip(1 - np.exp(scores.top_logps).sum(axis=1), LEAST, 1.0)
    return left


def unlikely(scores: Scores) -> Bools:
    among: Bools = (scores.top_ids == scores.ids[:, None]).any(axis=1)
    return ~among


def repetition(ids: Ints) -> float:
    """Share of the runs of four that occurred before in the same answer."""
    runs = [tuple(ids[n : n + GRAM].tolist()) for n in range(len(ids) - GRAM + 1)]
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
