"""Loads drawn at random, for the engine's own scheduler and the twin's: the same question to both.

    settings, asks = drawn(seed=7)
    ran, told = both(schedules, settings, asks)
    differing(twin, engine)                  requests that did not get the same tokens in the same steps

Caps from 2 to 64, budgets from 64 to 2,048 tokens, KV caches from barely one request to plenty, blocks of 8 to 32
tokens, with and without prefix caching, long-prefill limits and a watermark; prompts share beginnings, in blocks of
another size.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pellucid.collect.vllm import schedule_settings as engines
from pellucid.collect.vllm.schedule import Request, Schedules
from pellucid.collect.vllm.schedule_lines import PlannedStep
from pellucid.collect.vllm.scheduled import Scheduled
from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.run import Ran, run
from pellucid.sim.engine.schedule import Planned
from pellucid.sim.engine.settings import Settings

STEP_NS, TOKEN_NS = 2_000_000, 20_000


def drawn(seed: int) -> tuple[Settings, list[Ask]]:
    pick = random.Random(seed)
    side, context = pick.choice([8, 16, 16, 32]), pick.choice([512, 2048])
    settings = Settings(
        pick.choice([2, 8, 32, 64]), pick.choice([64, 256, 512, 2048]),
        max(pick.choice([0, 200, 600, 2000]), context // side + 5), side, context,
        prefix_caching=pick.random() < 0.7, long_prefill_tokens=pick.choice([0, 0, 32, 128]),
        watermark_ratio=pick.choice([0.0, 0.0, 0.05]),
    )  # fmt: skip
    asks, now_s, rate = list[Ask](), 0.0, pick.choice([2, 20, 200])
    for number in range(pick.choice([40, 150])):
        now_s += pick.expovariate(rate)
        asks.append(_ask(pick, number, int(now_s * 1e9), context))
    return settings, asks


def _ask(pick: random.Random, number: int, arrival_ns: int, context: int) -> Ask:
    prompt = pick.randrange(1, context // 2) if pick.random() < 0.8 else pick.randrange(1, 40)
    size = pick.choice([16, 64])
    count = pick.randrange(-(-prompt // size) + 1)
    shared, root = pick.randrange(count + 1), pick.randrange(4)
    blocks = [1000 * size + 100 * root + k for k in range(shared)]
    blocks += [10**6 + 1000 * number + k for k in range(count - shared)]
    return Ask(arrival_ns, prompt, pick.randrange(1, context // 2), tuple(blocks), size if blocks else 0)


def asked(settings: Settings) -> engines.Settings:
    return engines.Settings(
        settings.sequence_cap_count, settings.token_budget_tokens, settings.context_tokens,
        settings.kv_blocks_count + 1, settings.block_tokens, prefix_caching=settings.prefix_caching,
        chunked_prefill=settings.chunked_prefill, long_prefill_threshold=settings.long_prefill_tokens,
        admission_watermark=settings.watermark_ratio, reserve_full_prompt=settings.whole_prompt_must_fit,
    )  # fmt: skip


def requests(asks: Sequence[Ask]) -> list[Request]:
    return [Request(a.arrival_ns, a.prompt_tokens, a.output_tokens, a.blocks or None, a.block_tokens or None)
            for a in asks]  # fmt: skip


def both(engine: Schedules, settings: Settings, asks: Sequence[Ask]) -> tuple[Ran, Scheduled]:
    """The same load on both, with the same time for each step."""

    def ours(planned: Planned) -> float:
        return STEP_NS + TOKEN_NS * planned.tokens

    def theirs(step: PlannedStep) -> int:
        return STEP_NS + TOKEN_NS * (sum(p.tokens for p in step.prefills) + step.decode_count)

    return run(asks, settings, ours), engine.ask(asked(settings), requests(asks), theirs)


def differing(ran: Ran, told: Scheduled) -> list[int]:
    mine = {s.ask: (s.token_steps, s.cached_tokens, s.preemptions_count) for s in ran.served}
    theirs = {s.request: (tuple(map(tuple, s.token_steps)), s.cached_tokens, s.preemptions_count) for s in told.served}
    return sorted(i for i in mine.keys() | theirs.keys() if mine.get(i) != theirs.get(i))
