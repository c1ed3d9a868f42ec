"""A workload on virtual time: asks, settings and the duration of a step → what happened to every request.

    ran = run(asks, settings, step_ns)
    ran.served[0].first_token_step, ran.ends_ns[…]

A step lasts as long as `step_ns` says of what is in it. Between steps whoever has arrived joins the queue; with nothing
to do the clock goes to the next arrival. A later turn of a conversation comes its think time after the one before it.

Planned ahead (asynchronous scheduling), a step has only who had arrived when the step before it began; that an ended
request makes room a step later, too, is left out.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.core.errors import Failed
from pellucid.sim.engine.request import Ask, Live, Refused, Served
from pellucid.sim.engine.schedule import Planned, Schedule
from pellucid.sim.engine.settings import Settings

StepTime = Callable[[Planned], float]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ran:
    served: tuple[Served, ...]         # in the order they ended
    refused: tuple[Refused, ...]
    starts_ns: Ints                    # of each step
    ends_ns: Ints
    tokens: Ints                       # computed in each step
    running: Ints
    waiting: Ints
    kv_used_blocks: Ints
    preemptions_count: int


@dataclass(slots=True)
class _Steps:
    columns: dict[str, array[int]] = field(default_factory=lambda: {
        name: array("q") for name in ("starts_ns", "ends_ns", "tokens", "running", "waiting", "kv_used_blocks")
    })  # fmt: skip
    preemptions_count: int = 0

    def add(self, start_ns: int, end_ns: int, planned: Planned) -> None:
        row = (start_ns, end_ns, planned.tokens, planned.running_count, planned.waiting_count,
               planned.kv_used_blocks_count)  # fmt: skip
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)


def run(asks: Sequence[Ask], settings: Settings, step_ns: StepTime, alone_ns: float = 0.0) -> Ran:
    """`alone_ns`: more that a step takes with none right before it.

    Raises Failed where `step_ns` gives no time, or nothing can go on.
    """
    schedule, steps = Schedule(settings), _Steps()
    refused = [Refused(i, why) for i, ask in enumerate(asks) if (why := refusal(ask, settings))]
    next_turn, comes = _arrivals(asks, {r.ask for r in refused})
    served: list[Served] = []
    now_ns, number, stuck, idle = 0, 0, False, True
    before_ns = 0              # when the step before this one began
    while True:
        seen_ns = before_ns if settings.planned_ahead and not idle else now_ns
        while comes and comes[0][0] <= seen_ns:
            arrived_ns, index = heapq.heappop(comes)
            ask = asks[index]
            schedule.add(Live(index, ask, arrived_ns, max(1, ask.output_tokens), ask.keys(settings.block_tokens)))
        planned = schedule.step(number)
        if planned is None:
            if not comes:
                break
            now_ns, idle = max(now_ns, comes[0][0]), True
            continue
        steps.preemptions_count += planned.preempted_count
        if not planned.tokens:
            if stuck:
                raise Failed(f"nothing could be scheduled, with {planned.waiting_count} requests waiting")
            stuck = True
            continue
        stuck = False
        took_ns = int(step_ns(planned) + (alone_ns if idle else 0.0))
        idle = False
        if took_ns <= 0:
            raise Failed(f"a step of {planned.tokens} tokens was said to take {took_ns} ns")
        steps.add(now_ns, now_ns + took_ns, planned)
        before_ns, now_ns = now_ns, now_ns + took_ns
        for live in schedule.done(number):
            served.append(_served(live))
            turn = next_turn.get(live.index)
            if turn is not None:
                heapq.heappush(comes, (now_ns + asks[turn].think_ns, turn))
        number += 1
    columns: dict[str, Any] = {name: np.array(c, dtype=np.int64) for name, c in steps.columns.items()}
    return Ran(tuple(served), tuple(refused), **columns, preemptions_count=steps.preemptions_count)


def refusal(ask: Ask, settings: Settings) -> str:
    """Why an engine does not take it, or would never end it; "" where it does."""
    tokens = ask.prompt_tokens + max(1, ask.output_tokens)
    if ask.prompt_tokens < 1:
        return "it has no prompt"
    if tokens > settings.context_tokens:
        return f"{tokens} tokens, and the engine's longest request has {settings.context_tokens}"
    if tokens - 1 > settings.kv_blocks_count * settings.block_tokens:
        return f"{tokens - 1} positions, and the KV cache holds {settings.kv_blocks_count * settings.block_tokens}"
    return ""


def _arrivals(asks: Sequence[Ask], refused: set[int]) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Turn → the next one; and those that wait for nobody. What follows a refused turn comes at its own time."""
    next_turn: dict[int, int] = {}
    comes: list[tuple[int, int]] = []
    for index, ask in enumerate(asks):
        if index in refused:
            continue
        if ask.follows is not None and ask.follows not in refused:
            next_turn[ask.follows] = index
        else:
            comes.append((ask.arrival_ns, index))
    heapq.heapify(comes)
    return next_turn, comes


def _served(live: Live) -> Served:
    return Served(live.index, live.arrived_ns, live.first_step, live.first_token_step, tuple(live.stretches),
                  live.cached_tokens, live.preemptions_count, live.recomputed_tokens)  # fmt: skip
