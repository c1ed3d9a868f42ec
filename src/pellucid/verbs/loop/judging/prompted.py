"""Which prompts two engines are judged by: the workload's requests in our own text, or texts of our own alone.

    chosen = of_workload(read(path), 1.0, ("http://127.0.0.1:8000", {}), Plan(budget_ns))
    chosen.prompts        as long and alike as the workload's, as far as the time for scoring them goes
    chosen.says           "the workload's requests at 0.11 of their length and as alike, each to the end of a text …"

The reference says how long scoring takes: half of the budget goes into it, for as many prompts as a verdict usually
needs. How long a prompt may be follows from that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.collect.client.scoring import Asked, Fault, Served, client, generate, score, served_model
from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.units import S_NS
from pellucid.verbs.loop.judging.asked import read_prompts
from pellucid.verbs.loop.judging.gather import WAKING_S, Plan
from pellucid.verbs.loop.judging.shaped import Ids, Size, Text, shaped, sized
from pellucid.workload.file import Workload
from pellucid.workload.neutral import Prompt, neutral

MOST_PROMPTS = 1000      # more than any engine answers in the time
TEXTS_COUNT = 64         # of ours, for the tokenizer: streams of them differ, and they are read in a few seconds
WANTED_COUNT = 48        # prompts a verdict usually takes (docs/log/0008)
LEAST_MOST_TOKENS = 64   # chosen: shorter prompts would save little, for answers have to be scored too
# The log-probabilities of a prompt are computed for the whole vocabulary, outside of what an engine has put aside.
MOST_TOKENS = 1024       # of a prompt: 1 GiB in float32 with a vocabulary of 262,144
SHORT, LONG = 32, 256    # lengths at which scoring is timed
IDS_ONLY = ("prompts were token ids: where these were drawn at random no model is sure of anything behind them, and "
            "less is found than with text. Try: --prompts FILE")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chosen:
    prompts: Sequence[Prompt]
    says: str                        # where they come from, beside the verdict
    notes: tuple[str, ...] = ()
    took_ns: int = 0                 # asking the engine for it


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the reference said of itself."""

    served: Served
    text: Text
    fixed_s: float                   # of scoring, and more with each token
    token_s: float


def own(count: int, seed: int, why: str = "") -> Chosen:
    return Chosen(neutral(count, seed), f"texts of our own, in four tasks{f': {why}' if why else ''}")


def of_file(path: Path, count: int) -> Chosen:
    """Raises AskedWrongly with the line that does not read."""
    prompts = read_prompts(path)[:count]
    ids = all(not isinstance(p.content, str) for p in prompts)
    return Chosen(prompts, f"those of {path.name}", (IDS_ONLY,) if ids else ())


def of_workload(
    workload: Workload, ratio: float, reference: tuple[str, Mapping[str, str]], plan: Plan, count: int = MOST_PROMPTS,
    clock: Clock = monotonic_ns,
) -> Chosen:  # fmt: skip
    """`ratio`: of the workload's lengths, as it is sent. `reference`: address and headers."""
    began_ns = clock()
    said = asyncio.run(_ask(reference, plan))
    if isinstance(said, Fault):
        return replace(own(count, plan.seed, f"the reference does not score ({said.says})"), took_ns=clock() - began_ns)
    most = affordable(said.fixed_s, said.token_s, plan, said.served.context_tokens)
    size = sized(workload.requests, ratio, most, plan.max_tokens)
    prompts = shaped(workload.requests, size, said.text, ratio, plan.seed)
    took_ns = clock() - began_ns
    if not prompts:
        why = f"no request of the workload has 1 to {most} tokens at {size.ratio:.2g} of its length"
        return replace(own(count, plan.seed, why), took_ns=took_ns)
    left = len(workload) - len(prompts)
    notes = (f"{left} of {len(workload)} requests of the workload are too long at that length",)
    return Chosen(prompts[:count], _told(prompts, size), notes if left else (), took_ns)


def affordable(fixed_s: float, token_s: float, plan: Plan, context_tokens: int | None) -> int:
    """Tokens that a prompt may have, for WANTED_COUNT of them to be scored in half of the budget."""
    scorings = 3 * plan.answers_count + 1 + 1 / plan.floor_every      # of a prompt: see `gather`
    each_s = plan.budget_ns / S_NS / 2 / WANTED_COUNT / scorings
    most = MOST_TOKENS if token_s <= 0 else int((each_s - fixed_s) / token_s) - plan.max_tokens
    room = MOST_TOKENS if context_tokens is None else context_tokens - plan.max_tokens - 1
    return max(1, min(max(LEAST_MOST_TOKENS, most), MOST_TOKENS, room))


def _told(prompts: Sequence[Prompt], size: Size) -> str:
    shorter = f" at {size.ratio:.2g} of their length" if size.ratio < 1 else ""
    sampled = [(name, sum(getattr(p, name) is not None for p in prompts)) for name in ("temperature", "top_p", "top_k")]
    asked = ", ".join(f"{name} in {count} of {len(prompts)}" for name, count in sampled if count)
    sampling = f"sampled as they ask ({asked})" if asked else "they ask for no sampling, so the engine's own"
    names = sorted({p.task for p in prompts if p.task})
    tasks = f"tasks {', '.join(names)}" if names else "no task named"
    lengths = [len(p.content) for p in prompts]
    long = f"prompts of {min(lengths)} to {max(lengths)} tokens, answers of {size.answer_tokens} at most"
    ours = "and as alike, each to the end of a text of ours"
    return f"the workload's requests{shorter} {ours}: {long}; {tasks}; {sampling}"


async def _ask(reference: tuple[str, Mapping[str, str]], plan: Plan) -> _Asking | Fault:
    url, headers = reference
    async with client(url, min(WAKING_S, plan.budget_ns / S_NS), headers) as http:
        served = await served_model(http)
        if isinstance(served, Fault):
            return served
        text = await _text(http, served, plan)
        if isinstance(text, Fault):
            return text
        ids = [i for one in text.plain for i in one]
        times = []
        for length in (SHORT, SHORT, LONG):          # the first one may wait for a compiler
            length = min(length, (served.context_tokens or LONG) - 1)
            began_ns = monotonic_ns()
            found = await score(http, served, ids[:length], 1)
            if isinstance(found, Fault):
                return found
            times.append((length, (monotonic_ns() - began_ns) / S_NS))
    (short, short_s), (long, long_s) = times[1:]
    token_s = max(0.0, (long_s - short_s) / max(1, long - short))
    return _Asking(served, text, max(0.0, short_s - short * token_s), token_s)


async def _text(http: Any, served: Served, plan: Plan) -> Text | Fault:
    """Our texts as ids: an engine that is asked for one token tells those of the prompt."""
    texts = neutral(TEXTS_COUNT, plan.seed)
    gate = asyncio.Semaphore(plan.concurrent_count)

    async def one(prompt: Prompt) -> Ids | Fault:
        async with gate:
            said = await generate(http, served, Asked(prompt.content, 1))
            return said if isinstance(said, Fault) else said.prompt_ids

    found = await asyncio.gather(*(one(p) for p in texts))
    read: list[tuple[Prompt, Ids]] = []
    for prompt, ids in zip(texts, found, strict=True):
        if isinstance(ids, Fault):
            return ids
        read.append((prompt, ids))
    first = {ids[0] for _, ids in read if ids}
    begin = tuple(first) if len(first) == 1 else ()
    kinds: dict[bool, list[Ids]] = {True: [], False: []}
    for prompt, ids in read:
        kinds[prompt.response_format is not None].append(ids[len(begin):])
    return Text(begin, tuple(kinds[False]), tuple(kinds[True]))
