"""Prompts whose experts are known: in the model `tiny-skewed` a token's quarter of the vocabulary decides them.

    quarter_ask(random.Random(1), "chat", 0)    a prompt of t4 … t1023, and an answer that stays among them
    quarters(0, 2)                              a user who takes them in turn
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

from pellucid.testing.traffic import Ask

QUARTER, FIRST = 1024, 4      # the model's first tokens are special


def quarter_ask(pick: random.Random, task: str | None, quarter: int) -> Ask:
    words = range(max(FIRST, quarter * QUARTER), (quarter + 1) * QUARTER)
    prompt = " ".join(f"t{pick.choice(words)}" for _ in range(pick.randint(5, 150)))
    return Ask(0, prompt, pick.randint(4, 60), task=task, extra={"allowed_token_ids": [*words]})


def quarters(*wanted: int) -> Callable[[random.Random], Callable[[], Ask]]:
    def start(pick: random.Random) -> Callable[[], Ask]:
        first = pick.randrange(len(wanted))     # not all users want the same at the same time
        turns = cycle((*wanted[first:], *wanted[:first]))

        def one() -> Ask:
            quarter = next(turns)
            return quarter_ask(pick, f"quarter {quarter}", quarter)

        return one

    return start
