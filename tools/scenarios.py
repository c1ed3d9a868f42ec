"""Engine launches whose bottleneck is known in advance: flags, model, seeded traffic, and what `why` must find.

    scenario = SCENARIOS["sequence-cap"]
    scenario.flags, scenario.finds          # ("--max-num-seqs", "2", …), "queue.sequence_cap_binding"
    scenario.asks(random.Random(7))         # the same traffic for the same seed

Most users here wait for their answer before they ask again. The load then follows the engine's speed, so a scenario
means the same on a slow machine and on a fast one; on both it lasts `SECONDS`, and the engine drains after that.
`near_miss` scenarios look like a bottleneck and are none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from pellucid.testing.traffic import TOKENS, Ask
from tools.prompts import WORDS, passage, story, summary

SECONDS = 40.0
MANY = 100          # more asks than a user gets through in SECONDS

Traffic = Callable[[random.Random], list[Ask]]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    says: str                 # what is done to the engine
    model: str
    flags: tuple[str, ...]
    traffic: Traffic
    finds: str | None         # the one rule that must be found; None for a healthy engine
    near_miss: str | None = None   # the rule that must not be found although it looks like it

    def asks(self, pick: random.Random) -> list[Ask]:
        return self.traffic(pick)


def user(asks: list[Ask], count: int, think_s: float, draw: Callable[[], Ask], start_s: float = 0.0) -> None:
    """Appends one user's asks: each follows the end of the one before, after a pause."""
    for n in range(count):
        ask = draw()
        if n == 0:
            at_s, after = start_s, None
        else:
            at_s, after = think_s, len(asks) - 1
        asks.append(replace(ask, at_s=at_s, after=after))


def few_users(pick: random.Random) -> list[Ask]:
    asks: list[Ask] = []
    for _ in range(3):
        user(asks, MANY, 0.5, lambda: Ask(0, story(pick, 10), pick.randint(16, 32), "story"), pick.uniform(0, 1))
    return asks


def story_users(count: int) -> Traffic:
    def draw(pick: random.Random) -> list[Ask]:
        asks: list[Ask] = []
        for _ in range(count):
            user(asks, MANY, 0.0, lambda: Ask(0, story(pick, 10), pick.randint(12, 24), "story"), pick.uniform(0, 0.5))
        return asks

    return draw


def labelling(count: int) -> Traffic:
    """Users who send a passage and want a word or two."""

    def draw(pick: random.Random) -> list[Ask]:
        asks: list[Ask] = []
        for _ in range(count):
            user(asks, MANY, 0.0, lambda: Ask(0, summary(pick, 60), pick.randint(2, 4), "label"), pick.uniform(0, 0.5))
        return asks

    return draw


def one_burst(pick: random.Random) -> list[Ask]:
    asks: list[Ask] = []
    for _ in range(2):
        user(asks, MANY, 0.3, lambda: Ask(0, story(pick, 10), pick.randint(16, 32), "story"))
    asks += [Ask(15.0, summary(pick, 40), 2, "label") for _ in range(5)]
    return asks


def stories_and_documents(count: int, document_words: int, pause_s: float, documents: int) -> Traffic:
    """Streams that decode, and long prompts that arrive among them."""

    def draw(pick: random.Random) -> list[Ask]:
        asks = story_users(count)(pick)
        user(asks, documents, pause_s, lambda: Ask(0, passage(pick, document_words), 2, "document"), 6.0)
        return asks

    return draw


def long_stories(count: int, output_tokens: int) -> Traffic:
    def draw(pick: random.Random) -> list[Ask]:
        asks: list[Ask] = []
        for _ in range(count):
            user(asks, MANY, 0.0, lambda: Ask(0, story(pick, 10), output_tokens, "story"), pick.uniform(0, 2))
        return asks

    return draw


def crowd(count: int, output_tokens: int) -> Traffic:
    """Users of a tiny model who send and want token ids: client and frontend have hardly anything to do."""

    def draw(pick: random.Random) -> list[Ask]:
        def one() -> Ask:
            # Lengths differ, so that the users do not all come back at once.
            length = pick.randint(output_tokens // 2, output_tokens * 3 // 2)
            prompt = [pick.choice(WORDS) for _ in range(8)]
            return Ask(0, prompt, length, path=TOKENS, stream=False, extra={"temperature": 0})

        asks: list[Ask] = []
        for _ in range(count):
            user(asks, MANY, 0.0, one, pick.uniform(0, 1))
        return asks

    return draw


GEMMA = "gemma-3-270m"
CONTEXT = ("--max-model-len", "2048")
# Gemma's layers form six KV groups, so 32 tokens take six blocks. The engine wants room for one whole context.
FEW_BLOCKS = ("--max-num-seqs", "16", "--block-size", "32")

_ALL = (
    Scenario(
        "healthy", "three users, room for sixteen", GEMMA, (*CONTEXT, "--max-num-seqs", "16"), few_users, None,
    ),
    Scenario(
        "sequence-cap", "eight users, two may run at a time, the KV cache is nearly empty", GEMMA,
        (*CONTEXT, "--max-num-seqs", "2"), story_users(8), "queue.sequence_cap_binding",
    ),
    Scenario(
        "token-budget", "twelve users send passages, a step may compute 32 tokens", GEMMA,
        (*CONTEXT, "--max-num-seqs", "16", "--max-num-batched-tokens", "32"), labelling(12),
        "queue.token_budget_binding",
    ),
    Scenario(
        "long-prompts", "four streams, and a long document every second; a step may compute all of it", GEMMA,
        (*CONTEXT, "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
        stories_and_documents(4, 500, 0.8, MANY), "batch.prefill_stalling_decode",
    ),
    Scenario(
        "few-blocks", "eight users, KV blocks for about three of them", GEMMA,
        (*FEW_BLOCKS, "--max-model-len", "256", "--num-gpu-blocks-override", "60"), long_stories(8, 64),
        "kv.preemption_storm",
    ),
    Scenario(
        "busy-host", "a one-layer model and a crowd that wants no text: little model, all scheduler", "tiny-shallow",
        (*CONTEXT, "--max-num-seqs", "512", "--enable-scale-out"), crowd(480, 400), "host.engine_core_busy",
    ),
    Scenario(
        "cap-reached", "two users, two may run at a time", GEMMA,
        (*CONTEXT, "--max-num-seqs", "2"), story_users(2), None, "queue.sequence_cap_binding",
    ),
    Scenario(
        "one-burst", "two users and one burst of prompts, a step may compute 32 tokens", GEMMA,
        (*CONTEXT, "--max-num-seqs", "16", "--max-num-batched-tokens", "32"), one_burst, None,
        "queue.token_budget_binding",
    ),
    Scenario(
        "two-documents", "four streams and two long documents in all", GEMMA,
        (*CONTEXT, "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
        stories_and_documents(4, 500, 12.0, 2), None, "batch.prefill_stalling_decode",
    ),
    Scenario(
        "full-cache", "four users, KV blocks for exactly what they write and no more", GEMMA,
        (*FEW_BLOCKS, "--max-model-len", "128", "--num-gpu-blocks-override", "50"), long_stories(4, 32), None,
        "kv.preemption_storm",
    ),
    Scenario(
        "moderate-host", "the one-layer model with a few users", "tiny-shallow",
        (*CONTEXT, "--max-num-seqs", "256", "--enable-scale-out"), crowd(32, 200), None, "host.engine_core_busy",
    ),
)  # fmt: skip

SCENARIOS = {s.name: s for s in _ALL}
DEMO = tuple(s.name for s in _ALL if s.near_miss is None)
