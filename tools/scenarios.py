"""Engine launches whose bottleneck is known in advance: flags, model, seeded traffic, and what `why` must find.

    scenario = SCENARIOS["sequence-cap"]
    scenario.flags, scenario.finds          # ("--max-num-seqs", "2", …), "queue.sequence_cap_binding"
    scenario.asks(random.Random(7))         # the same traffic for the same seed

Most users here wait for their answer before they ask again. The load then follows the engine's speed, so a scenario
means the same on a slow machine and on a fast one; on both it lasts `SECONDS`, and the engine drains after that.
`near_miss` scenarios look like a bottleneck and are none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from pellucid.testing.traffic import TOKENS, Ask
from tools.cpu_ranks import FLAGS as TWO_RANKS
from tools.traffic.experts import quarters
from tools.traffic.prompts import (
    WORDS,
    Draw,
    briefed,
    documents_in_turn,
    id_in_front,
    id_last,
    leaving,
    new_documents,
    passage,
    salted,
    story,
    summary,
)

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
    page: bool = False             # the engine's metrics page is recorded too
    two_ranks: bool = False        # two expert-parallel ranks: tools/cpu_ranks.py

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


WORD = 1000         # a token of Gemma's


def dice_and_copies(pick: random.Random) -> list[Ask]:
    """Three users whose answers are drawn from twelve tokens, so that hardly a draft is right, and one whose answers
    are one token again and again."""
    asks: list[Ask] = []
    for task, users, choices, temperature, think_s in (("dice", 3, 12, 2.0, 0.0), ("copy", 1, 1, 0.0, 2.0)):
        extra = {"temperature": temperature, "allowed_token_ids": list(range(WORD, WORD + choices))}

        def one(task: str = task, extra: dict[str, object] = extra) -> Ask:
            return Ask(0, story(pick, 30), pick.randint(100, 200), task, extra=extra)

        for _ in range(users):
            user(asks, MANY, think_s, one, pick.uniform(0, 0.5))
    return asks


def short_copies(users: int, prompt: int, output_tokens: int) -> Traffic:
    """Answers that any draft has right, and that end with the first one. With blocks of 32 tokens most of
    the prompt is found in the cache, so that nobody waits for prompts."""

    def draw(pick: random.Random) -> list[Ask]:
        extra = {"temperature": 0.0, "allowed_token_ids": [WORD]}

        def one() -> Ask:
            return Ask(0, [WORD] * (prompt + pick.randint(0, 8)), output_tokens, "copy", extra=extra)

        asks: list[Ask] = []
        for _ in range(users):
            user(asks, MANY, 0.0, one, pick.uniform(0, 0.5))
        return asks

    return draw


def coins(users: int) -> Traffic:
    """Answers drawn from two tokens: of what was drafted, each further position is right half as often."""

    def draw(pick: random.Random) -> list[Ask]:
        extra = {"temperature": 2.0, "allowed_token_ids": [WORD, WORD + 1]}

        def one() -> Ask:
            return Ask(0, story(pick, 30), pick.randint(200, 300), "coin", extra=extra)

        asks: list[Ask] = []
        for _ in range(users):
            user(asks, MANY, 0.0, one, pick.uniform(0, 0.5))
        return asks

    return draw


def drafts(tokens: int, match: int) -> tuple[str, ...]:
    """N-gram speculation: what followed the last `match` tokens when they were there before."""
    config = {"method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_max": match,
              "prompt_lookup_min": match}  # fmt: skip
    return ("--max-num-seqs", "16", "--speculative-config", json.dumps(config))


def each(count: int, start: Draw, think_s: float = 0.05) -> Traffic:
    """So many users who ask one thing after another."""

    def draw(pick: random.Random) -> list[Ask]:
        asks: list[Ask] = []
        for _ in range(count):
            user(asks, 10 * MANY, think_s, start(pick), pick.uniform(0, 0.5))
        return asks

    return draw


def one_word(pick: random.Random) -> Callable[[], Ask]:
    """A passage in, one token out: blocks for the whole prompt are wanted at once, and hardly one later."""
    return lambda: Ask(0, summary(pick, 60), 1, "label")


GEMMA = "gemma-3-270m"
CONTEXT = ("--max-model-len", "2048")
# Gemma's layers form six KV groups, so 32 tokens take six blocks. The engine wants room for one whole context.
FEW_BLOCKS = ("--max-num-seqs", "16", "--block-size", "32")
# Gemma's block of 128 tokens takes 0.8 MB in float32, half in bfloat16: 4.4 or 2.2 GiB in all.
MANY_BLOCKS = ("--num-gpu-blocks-override", "6000")                             # of 128 tokens, the CPU's default
SMALLER_BLOCKS = ("--num-gpu-blocks-override", "24000", "--block-size", "32")
TINY = "tiny-dense"
SMALL_BLOCKS = ("--max-model-len", "1024", "--max-num-seqs", "16", "--block-size", "32")
HUNDRED_BLOCKS = (*SMALL_BLOCKS, "--num-gpu-blocks-override", "100")
SKEWED, SMALL = "tiny-skewed", ("--max-model-len", "512", "--max-num-seqs", "16")

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
        "drafts-rejected", "three users whose drafts are nearly all wrong, one whose drafts are all right", GEMMA,
        (*CONTEXT, *drafts(8, 3)), dice_and_copies, "spec.not_worth_it",
    ),
    Scenario(
        "deep-drafts", "two users whose answers are one of two tokens each time, and drafts of twelve", GEMMA,
        (*CONTEXT, *drafts(12, 2)), coins(2), "spec.too_deep",
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
        "half-kept-drafts", "a user who wants nine tokens, and drafts of twelve: seven of them are kept", GEMMA,
        (*CONTEXT, *drafts(12, 2)), short_copies(1, 60, 9), None, "spec.not_worth_it",
    ),
    Scenario(
        "short-drafts", "eight users who want four tokens, and drafts of two", GEMMA,
        (*CONTEXT, *drafts(2, 2), "--block-size", "32"), short_copies(8, 34, 4), None, "spec.too_deep",
    ),
    Scenario(
        "kv-waits", "eight users send passages, KV blocks for about three of them, no more than sixteen may run", GEMMA,
        (*FEW_BLOCKS, "--max-model-len", "256", "--num-gpu-blocks-override", "60"), each(8, one_word), "kv.too_small",
    ),
    Scenario(
        "kv-fits", "three users send passages, KV blocks for these and hardly more", GEMMA,
        (*FEW_BLOCKS, "--max-model-len", "256", "--num-gpu-blocks-override", "80"), each(3, one_word), None,
        "kv.too_small",
    ),
    Scenario(
        "kv-unused", "two users, two may run at a time, KV blocks for hundreds", GEMMA,
        (*CONTEXT, "--max-num-seqs", "2", *MANY_BLOCKS), story_users(2), "kv.idle",
    ),
    Scenario(
        "kv-holds-prefixes", "as much memory in smaller blocks, and prompts that begin alike", GEMMA,
        (*CONTEXT, "--max-num-seqs", "2", *SMALLER_BLOCKS), each(2, briefed), None, "kv.idle",
    ),
    Scenario(
        "documents-in-turn", "one user takes eight documents in turn, KV blocks for half of them", TINY, HUNDRED_BLOCKS,
        each(1, documents_in_turn(8)), "prefix.evicted_before_reuse",
    ),
    Scenario(
        "new-documents", "the same blocks, and a new document each time", TINY, HUNDRED_BLOCKS,
        each(1, new_documents), None, "prefix.evicted_before_reuse",
    ),
    Scenario(
        "id-in-front", "the same instructions each time, behind an id", TINY, SMALL_BLOCKS, each(1, id_in_front),
        "prefix.never_shareable",
    ),
    Scenario(
        "id-last", "the same instructions each time, and the id behind them", TINY, SMALL_BLOCKS, each(1, id_last),
        None, "prefix.never_shareable",
    ),
    Scenario(
        "salt-each", "the same instructions each time, under a new salt", TINY, SMALL_BLOCKS, each(1, salted(0)),
        "prefix.never_shareable",
    ),
    Scenario(
        "salt-by-tenant", "the same instructions each time, under the salts of three tenants", TINY, SMALL_BLOCKS,
        each(1, salted(3)), None, "prefix.never_shareable",
    ),
    Scenario(
        "clients-leave", "four users, one answer in four is given up; the metrics page is read too", TINY,
        SMALL_BLOCKS, each(4, leaving(4)), "data.metrics_disagree", page=True,
    ),
    Scenario(
        "clients-stay", "four users, one answer in fifty is given up; the metrics page is read too", TINY,
        SMALL_BLOCKS, each(4, leaving(50)), None, "data.metrics_disagree", page=True,
    ),
    Scenario(
        "hot-experts", "six users whose tokens all want the same four experts of sixteen, on one of two ranks", SKEWED,
        (*SMALL, *TWO_RANKS), each(6, quarters(0)), "moe.expert_skew", two_ranks=True,
    ),
    Scenario(
        "hot-experts-one-rank", "the same users and experts, all on one rank", SKEWED, SMALL, each(6, quarters(0)),
        None, "moe.expert_skew",
    ),
    Scenario(
        "uneven-ranks", "six users whose tokens want eight experts of sixteen, those of the first of two ranks", SKEWED,
        (*SMALL, *TWO_RANKS), each(6, quarters(0, 1)), "moe.rank_imbalance", two_ranks=True,
    ),
    Scenario(
        "even-ranks", "the same, four on each of two ranks", SKEWED, (*SMALL, *TWO_RANKS), each(6, quarters(0, 2)),
        None, "moe.rank_imbalance", two_ranks=True,
    ),
    Scenario(
        "moderate-host", "the one-layer model with a few users", "tiny-shallow",
        (*CONTEXT, "--max-num-seqs", "256", "--enable-scale-out"), crowd(32, 200), None, "host.engine_core_busy",
    ),
)  # fmt: skip

SCENARIOS = {s.name: s for s in _ALL}
# What `make demo` draws from: what was seen to be found, and nothing else, with the rules of today.
DEMO = (
    "healthy", "long-prompts", "few-blocks", "kv-waits", "documents-in-turn", "id-in-front", "salt-each",
    "sequence-cap", "token-budget", "new-documents", "deep-drafts", "hot-experts",
)
