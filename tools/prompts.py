"""Prompts drawn by a seed: plausible English of a wanted length for Gemma, exact token counts for the tiny models.

    passage(random.Random(1), words=12)  →  "The harbour clerk repaired a brass lamp before noon. The young baker …"
    tokens(random.Random(1), 3)          →  "t141 t36 t261"
"""

from __future__ import annotations

import random

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
