"""What a verdict on fidelity holds, and the limits it rests on.

    word            means                                                                      may be kept
    same            the arms differ by less than the margin, and what would have been found is told     yes
    different       they differ, in a task and statistic that is named                                  no
    inconclusive    neither was shown; the prompts that would be needed are told                        no
    blind           it could not be seen: the reference failed, or differs from itself                  no
    failed          the candidate did not answer, or not with what can be judged                        no
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from pellucid.diagnose.rule import Limit

Word = Literal["same", "different", "inconclusive", "blind", "failed"]
WORST_FIRST: tuple[Word, ...] = ("failed", "blind", "different", "inconclusive", "same")

LEVEL = Limit(0.01, "ratio", "chosen: of a hundred candidates that are the reference one is called different, over all "
                             "tasks and statistics together")  # fmt: skip
SIDE = Limit(0.05, "ratio", "chosen: the error of each of the two one-sided tests by which arms are called the same")
MARGIN = Limit(0.1, "nats per token", "chosen: by its own distributions gemma-3-270m differs by as much at a "
                                      "temperature of 1.04 instead of 1; docs/log/0008")  # fmt: skip
TASK_MARGIN = Limit(3.0, "ratio", "chosen: of the margin for a task alone, which has a part of the prompts")
KL = Limit(0.02, "nats per token", "chosen: above bfloat16 against float32 of the same weights, below weights with "
                                   "noise that is heard in the answers; docs/log/0008")  # fmt: skip
FLOOR_LEVEL = Limit(0.001, "ratio", "chosen: a reference that differs from itself so surely is not one to judge by")
EMPTY = Limit(0.5, "ratio", "chosen: an arm that leaves half of its answers empty does not serve")


@dataclass(frozen=True, slots=True)
class Terms:
    """How strict. The defaults are the limits above; whoever changes them says so beside the verdict."""

    level_ratio: float = LEVEL.value
    margin_nats: float = MARGIN.value        # for all tasks together; for one alone TASK_MARGIN times that
    kl_nats: float = KL.value
    draws_count: int = 4999                  # exchanges of labels
    tries_count: int = 200                   # corruptions of each size, to say what would be found


@dataclass(frozen=True, slots=True)
class Difference:
    """One statistic: candidate - reference, beside what the reference differs from itself by."""

    name: str
    unit: str
    says: str
    difference: float
    low: float                           # bounds of the difference, 95 % on either side
    high: float
    p_adjusted: float                    # of all tasks and statistics together
    floor_difference: float              # the reference's later answers - its earlier ones
    floor_p_adjusted: float


@dataclass(frozen=True, slots=True)
class Task:
    """`task` is "all" for all of them together."""

    task: str
    word: Word
    reason: str
    prompts_count: int
    candidate_answers_count: int
    reference_answers_count: int
    smallest_found_ratio: float | None       # share of corrupted tokens found in 9 of 10 tries; None: not even all
    margin_nats: float
    prompts_needed_count: int | None         # for `same`; None where it is not a matter of prompts
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Forced:
    """The second test: the same tokens shown to both. Alone it keeps nothing."""

    word: Word
    reason: str
    kl_nats: float                       # reference against candidate, mean over texts; a lower bound
    low: float
    high: float
    limit_nats: float
    agreeing_ratio: float                # tokens with the same likeliest one
    floor_kl_nats: float                 # the reference against itself
    floor_agreeing_ratio: float
    texts_count: int
    tokens_count: int


@dataclass(frozen=True, slots=True)
class Fidelity:
    word: Word
    reason: str
    tasks: tuple[Task, ...] = ()             # "all" first
    forced: Forced | None = None
    notes: tuple[str, ...] = ()
    took_ns: int = 0
    terms: Terms = field(default_factory=Terms)
    prompts: str = ""                        # where they came from, and how they were sampled; "" where nobody told

    def json(self) -> dict[str, Any]:
        """As the fields above, null for None."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
