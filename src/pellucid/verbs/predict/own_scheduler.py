"""The engine's own scheduler as the player of a prediction: slower than ours, and right in whatever ours leaves out.

    with own_scheduler(".venv-engine/bin/python", engine) as player:
        predict(asks, settings, twin, player=player)

It needs the engine installed, of any version, and no device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.request import Ask, Refused, Served
from pellucid.sim.engine.run import Ran, StepTime
from pellucid.sim.engine.schedule import Chunk, Planned
from pellucid.sim.engine.settings import Settings
from pellucid.sim.predict import Player
from pellucid.verbs.launch.engines import part_of
from pellucid.verbs.predict.settings import groups_count, present


@contextmanager
def own_scheduler(python: str, engine: Engine) -> Iterator[Player]:
    """Raises CannotAnswer where that Python has no such engine, or the recorded one does what is not driven."""
    schedule, named = part_of(engine.name, "schedule"), part_of(engine.name, "schedule_settings")
    if odd := named.not_driven(engine.config):
        raise CannotAnswer(f"the engine's own scheduler is not driven with {', '.join(odd)}. Try: without --engine")
    driven = named.settings_of(engine.config, _model(engine))
    with schedule.Schedules(python) as schedules:

        def play(asks: Sequence[Ask], settings: Settings, step_ns: StepTime, alone_ns: float) -> Ran:
            if any(ask.follows is not None for ask in asks):
                raise CannotAnswer("turns that wait for an answer are not driven. Try: without --engine")
            order = sorted(range(len(asks)), key=lambda place: asks[place].arrival_ns)
            requests = [schedule.Request(*_request(asks[place])) for place in order]
            told = schedules.ask(_changed(driven, settings, engine), requests, _timed(step_ns, alone_ns))
            return ran_of(told, order, groups_count(engine))

        yield play


def _model(engine: Engine) -> str | None:
    """Its folder, where it is here: how its layers keep what they keep is in its config.json."""
    folder = Path(str(engine.config.get("model") or ""))
    return str(folder) if (folder / "config.json").is_file() else None


def _changed(driven: Any, settings: Settings, engine: Engine) -> Any:
    """Blocks as the engine counts them, where they are asked to be others than they were."""
    same = settings.kv_blocks_count == present(engine).kv_blocks_count
    blocks = driven.kv_blocks_count if same else settings.kv_blocks_count * groups_count(engine) + 1
    return replace(
        driven, max_running_requests=settings.sequence_cap_count, sequence_cap=None,
        step_token_budget=max(settings.token_budget_tokens, settings.sequence_cap_count),
        scheduled_token_budget=settings.token_budget_tokens, kv_blocks_count=blocks,
        prefix_caching=settings.prefix_caching, chunked_prefill=settings.chunked_prefill,
        long_prefill_threshold=settings.long_prefill_tokens, reserve_full_prompt=settings.whole_prompt_must_fit,
        admission_watermark=settings.watermark_ratio,
    )  # fmt: skip


def _request(ask: Ask) -> tuple[Any, ...]:
    return (ask.arrival_ns, ask.prompt_tokens, max(1, ask.output_tokens), ask.blocks or None,
            ask.block_tokens or None)  # fmt: skip


def _timed(step_ns: StepTime, alone_ns: float) -> Callable[[Any], int]:
    end_ns = -1

    def timed(step: Any) -> int:
        nonlocal end_ns
        chunks = tuple(Chunk(p.tokens, p.context_tokens, p.samples) for p in step.prefills)
        planned = Planned(chunks, step.decode_count, step.decode_context_tokens, step.running_count,
                          step.waiting_count, step.preempted_count, step.kv_used_blocks_count)  # fmt: skip
        took_ns = int(step_ns(planned) + (alone_ns if step.start_ns != end_ns else 0.0))
        end_ns = step.start_ns + took_ns
        return took_ns

    return timed


def ran_of(told: Any, order: Sequence[int], groups: int) -> Ran:
    """`order`: place among all asks, of each request. A block in each of the groups counts as one."""
    steps = told.steps
    served = tuple(
        Served(order[s.request], s.arrival_ns, int(np.searchsorted(steps.start_ns, s.scheduled_ns)),
               s.token_steps[0][0], s.token_steps, s.cached_tokens, s.preemptions_count, None)
        for s in sorted(told.served, key=lambda s: s.last_token_ns)
    )  # fmt: skip
    refused = tuple(Refused(order[r.request], r.reason) for r in told.refused)
    return Ran(served, refused, steps.start_ns, steps.end_ns, steps.prefill_tokens + steps.decode_count,
               steps.running_count, steps.waiting_count, steps.kv_used_blocks_count // groups,
               int(steps.preempted_count.sum()))  # fmt: skip
