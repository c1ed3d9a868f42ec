"""Prompts that share text, or do not, in ways known in advance: what a user of the tiny model sends in turn.

    draw = documents_in_turn(8)(random.Random(7))
    draw().prompt        the first of eight documents and a question; the next call has the second one

All lengths are in tokens of the tiny models, so that what is alike lies on the borders of KV blocks, or does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

from pellucid.testing.traffic import Ask
from tools.prompts import passage, tokens

DOCUMENT = 640      # tokens: twenty blocks of 32
QUESTION = 30
ID = 4

Draw = Callable[[random.Random], Callable[[], Ask]]


def documents_in_turn(count: int) -> Draw:
    """The same documents again and again, each with a new question: to keep one, the cache has to hold all of them."""

    def start(pick: random.Random) -> Callable[[], Ask]:
        turn = cycle([tokens(pick, DOCUMENT) for _ in range(count)])
        return lambda: Ask(0, f"{next(turn)} {tokens(pick, QUESTION)}", 2, "document")

    return start


def new_documents(pick: random.Random) -> Callable[[], Ask]:
    return lambda: Ask(0, tokens(pick, DOCUMENT + QUESTION), 2, "document")


def id_in_front(pick: random.Random) -> Callable[[], Ask]:
    """The same instructions behind an id that is another one each time, and always as long."""
    same = tokens(pick, DOCUMENT)
    return lambda: Ask(0, f"{tokens(pick, ID)} {same} {tokens(pick, QUESTION)}", 2, "instructions")


def id_last(pick: random.Random) -> Callable[[], Ask]:
    same = tokens(pick, DOCUMENT)
    return lambda: Ask(0, f"{same} {tokens(pick, QUESTION)} {tokens(pick, ID)}", 2, "instructions")


def salted(salts: int) -> Draw:
    """The same instructions under one of so many salts; 0 for a new one each time."""

    def start(pick: random.Random) -> Callable[[], Ask]:
        same = tokens(pick, DOCUMENT)

        def one() -> Ask:
            salt = f"tenant-{pick.randrange(salts) if salts else pick.getrandbits(64)}"
            return Ask(0, f"{same} {tokens(pick, QUESTION)}", 2, "instructions", extra={"cache_salt": salt})

        return one

    return start


def leaving(every: int) -> Draw:
    """Short prompts and long answers; each time so many were asked for, the client hangs up within the answer."""

    def start(pick: random.Random) -> Callable[[], Ask]:
        turn = cycle([None] * (every - 1) + [8])
        return lambda: Ask(0, tokens(pick, QUESTION), 64, "answer", hang_up_tokens=next(turn))

    return start


def briefed(pick: random.Random) -> Callable[[], Ask]:
    """For Gemma: everybody's prompt begins with the same brief."""
    brief = passage(random.Random(1), 250)
    return lambda: Ask(0, f"{brief} Story number {pick.randrange(10_000)}:", pick.randint(12, 24), "brief")
