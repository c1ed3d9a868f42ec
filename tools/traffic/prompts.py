"""Prompts drawn by a seed: plausible English of a wanted length for Gemma, exact token counts for the tiny models.

Those that share text, or do not, in ways known in advance are what one user asks in turn: a `Draw` starts such a user.
Their lengths are in tokens of the tiny models, so that what is alike lies on the borders of KV blocks, or does not.

    passage(random.Random(1), words=12)  →  "The harbour clerk repaired a brass lamp before noon. The young baker …"
    tokens(random.Random(1), 3)          →  "t141 t36 t261"
    documents_in_turn(8)(random.Random(7))()       the first of eight documents and a question; then the second …
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

from pellucid.testing.traffic import Ask

WHO = ("harbour clerk", "young baker", "night porter", "surveyor", "retired pilot", "school inspector", "bee keeper",
       "bridge engineer", "violin maker", "ferry captain", "botanist", "stage manager")  # fmt: skip
DID = ("repaired", "measured", "borrowed", "painted", "described", "hid", "sold", "weighed", "catalogued", "carried",
       "photographed", "returned")  # fmt: skip
WHAT = ("a brass lamp", "the old map", "three wooden crates", "a letter from the north", "the tide tables",
        "a broken compass", "the museum's clock", "a sack of barley", "the rehearsal notes", "a jar of honey",
        "the survey stakes", "a spare rudder")  # fmt: skip
WHEN = ("before noon", "after the storm", "without a word", "at the market", "during the long winter",
        "while the others slept", "on the second attempt", "near the lock gates", "in front of the council",
        "a week too late", "with great care", "for the last time")  # fmt: skip

WORDS = range(4, 512)     # words that every tiny model knows


def passage(pick: random.Random, words: int) -> str:
    """Sentences of at least `words` words; about 1.2 Gemma tokens a word."""
    out: list[str] = []
    count = 0
    while count < words:
        sentence = f"The {pick.choice(WHO)} {pick.choice(DID)} {pick.choice(WHAT)} {pick.choice(WHEN)}."
        out.append(sentence)
        count += len(sentence.split())
    return " ".join(out)


def story(pick: random.Random, words: int) -> str:
    return f"Story number {pick.randrange(10_000)}. {passage(pick, words)} Then"


def summary(pick: random.Random, words: int) -> str:
    return f"Report {pick.randrange(10_000)}. {passage(pick, words)}\n\nIn short:"


def tokens(pick: random.Random, count: int) -> str:
    """A prompt of exactly `count` tokens for a tiny model."""
    return " ".join(f"t{pick.choice(WORDS)}" for _ in range(count))


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
