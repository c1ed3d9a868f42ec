"""Prompts of nobody that a language model takes for text: four tasks, drawn by a seed from our own templates.

    neutral(4, seed=0)  →  Prompt("chat", "User: How does a heron find food?\\nAssistant:"), Prompt("code", …), …

Token ids drawn at random are text to nobody: a model is unsure of every token behind them, and what changes its answers
there says little of what it does with people's prompts. These have sentences, programs, records, and text to repeat.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WHO = ("a heron", "a lighthouse keeper", "a young carpenter", "a village doctor", "a railway clerk", "a potter",
       "a fox", "a night nurse", "a glass blower", "a mountain guide", "a tailor", "a ferry pilot")  # fmt: skip
DOES = ("find food", "learn the trade", "prepare for winter", "keep records", "choose tools", "save water",
        "plan a week", "measure distance", "teach others", "repair a roof", "store grain", "cross a river")  # fmt: skip
PLACE = ("near the coast", "in a dry year", "without electricity", "in the old town", "on an island", "after a flood",
         "with little money", "in the far north", "during harvest", "before the railway came")  # fmt: skip
THING = ("lamp", "kettle", "ladder", "basket", "compass", "blanket", "shovel", "bicycle", "mirror", "bucket", "clock",
         "rope")  # fmt: skip
NAME = ("Ines", "Tomas", "Maren", "Odile", "Farid", "Yuki", "Anton", "Leila", "Bruno", "Sanna", "Pavel", "Nadia")
CITY = ("Porto", "Bergen", "Graz", "Lille", "Turku", "Split", "Cork", "Gdynia", "Bari", "Ghent")
VERB = ("count", "merge", "sort", "reverse", "filter", "group", "sum", "pair", "split", "rank")
NOUN = ("words", "orders", "prices", "dates", "points", "lines", "scores", "intervals", "names", "readings")
ASKS = ("Explain it in a few sentences.", "Give me three points.", "Tell it as a short story.",
        "What is the hardest part?", "I have never seen it done.")  # fmt: skip
JSON_OBJECT: Mapping[str, Any] = {"type": "json_object"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """What to ask: text, or token ids."""

    task: str | None
    content: str | tuple[int, ...]
    max_tokens: int | None = None                    # None: whoever asks decides
    temperature: float | None = None                 # None: the engine's default
    top_p: float | None = None
    top_k: int | None = None                         # 0 for all tokens
    response_format: Mapping[str, Any] | None = field(default=None, hash=False)


def neutral(count: int, seed: int = 0) -> list[Prompt]:
    """`count` prompts, the tasks in turn, all different."""
    pick = random.Random(seed)
    made: dict[str | tuple[int, ...], Prompt] = {}
    while len(made) < count:
        prompt = MAKERS[len(made) % len(MAKERS)](pick)
        made.setdefault(prompt.content, prompt)
    return list(made.values())


def _chat(pick: random.Random) -> Prompt:
    question = f"How does {pick.choice(WHO)} {pick.choice(DOES)} {pick.choice(PLACE)}? {pick.choice(ASKS)}"
    return Prompt("chat", f"User: {question}\nAssistant:")


def _code(pick: random.Random) -> Prompt:
    verb, noun, by = pick.choice(VERB), pick.choice(NOUN), pick.choice(NOUN)
    says = f"{verb.capitalize()} the {noun} by their {by}; those without any come {pick.choice(('first', 'last'))}."
    head = f'def {verb}_{noun}_by_{by}({noun}: list, {by}: dict) -> list:\n    """{says}"""\n'
    return Prompt("code", f"# For the {pick.choice(THING)} shop of {pick.choice(CITY)}\n\n{head}")


def _json(pick: random.Random) -> Prompt:
    lines = "\n".join(_order(pick) for _ in range(3))
    ask = "Each order becomes one JSON object with name, city, item and pieces."
    return Prompt("json", f"{ask}\n{lines.rpartition(chr(10))[0]}\n", response_format=JSON_OBJECT)


def _order(pick: random.Random) -> str:
    """A line of text and the record it becomes."""
    who, city, thing, pieces = pick.choice(NAME), pick.choice(CITY), pick.choice(THING), pick.randint(2, 40)
    record = f'{{"name": "{who}", "city": "{city}", "item": "{thing}", "pieces": {pieces}}}'
    return f"Order: {who} of {city} wants {pieces} pieces of {thing}.\n{record}"


def _copy(pick: random.Random) -> Prompt:
    lines = [f"{n + 1}. {pick.choice(NAME)} took a {pick.choice(THING)} to {pick.choice(CITY)} {pick.choice(PLACE)}."
             for n in range(5)]  # fmt: skip
    text = "\n".join(lines)
    return Prompt("copy", f"The list:\n{text}\n\nThe same list, copied without a change:\n{lines[0]}\n")


MAKERS: tuple[Callable[[random.Random], Prompt], ...] = (_chat, _code, _json, _copy)
