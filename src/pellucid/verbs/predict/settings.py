"""An engine's recorded configuration, with settings on top → what decides its schedule.

    present(engine) → Settings(sequence_cap_count=256, …)
    changed(engine, (Setting("max_running_requests", 64),)) → the same with sequence_cap_count=64

Which of the knobs a twin can follow is written down here. Others change the step itself (precision, graphs, parallel
ranks) or what nobody has modelled; they are refused by name and never silently left out.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.catalog.knobs.spelling import Engine, Plain, number
from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.settings import Settings
from pellucid.tune.space import Candidate, Value

FIELDS = {
    "max_running_requests": "sequence_cap_count", "sequence_cap": "sequence_cap_count",
    "step_token_budget": "token_budget_tokens", "scheduled_token_budget": "token_budget_tokens",
    "long_prefill_threshold": "long_prefill_tokens", "kv_cache_memory": "kv_blocks_count",
    "prefix_caching": "prefix_caching", "chunked_prefill": "chunked_prefill",
    "reserve_full_prompt": "whole_prompt_must_fit", "admission_watermark": "watermark_ratio",
}  # fmt: skip
# Without these of a configuration no schedule can be followed.
NEEDED = ("max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "block_size", "max_model_len")


# Looked up in the engine's code: 0.28 cuts a long prompt also where nobody else is there, 0.32 does not. What those in
# between do is not known; they are taken to be as the older one.
LONG_BESIDE = (0, 32)


def present(engine: Engine) -> Settings:
    """Raises CannotAnswer where the recording does not have what a schedule follows from."""
    config = engine.config
    missing = [key for key in NEEDED if not number(config.get(key))]
    if missing:
        raise CannotAnswer(
            f"the run does not have the engine's {', '.join(missing)}: its schedule cannot be followed. "
            "Try: record the engine with the probe in it"
        )
    if config.get("scheduling_policy") not in (None, "fcfs"):
        raise CannotAnswer(f"the engine schedules by {config['scheduling_policy']}: only first come, first served is "
                           "followed here")  # fmt: skip
    if number(config.get("data_parallel_size")) not in (None, 1.0):
        raise CannotAnswer("the engine has several data-parallel ranks, and how requests were spread is not followed")
    if config.get("speculative_method") or config.get("num_speculative_tokens"):
        raise CannotAnswer("the engine drafts tokens (speculation), which is not followed yet")
    cap, budget, blocks, side, context = (int(number(config.get(key)) or 0) for key in NEEDED)
    usable = max(1, (blocks - 1) // groups_count(engine))
    return Settings(
        cap, int(number(config.get("max_num_scheduled_tokens")) or budget), usable, side, context,
        prefix_caching=_is(config.get("enable_prefix_caching"), True),
        chunked_prefill=_is(config.get("enable_chunked_prefill"), True),
        long_prefill_tokens=int(number(config.get("long_prefill_token_threshold")) or 0),
        whole_prompt_must_fit=_is(config.get("scheduler_reserve_full_isl"), True),
        watermark_ratio=number(config.get("watermark")) or 0.0, long_prefill_alone=_minor(engine.version) < LONG_BESIDE,
        planned_ahead=_is(config.get("async_scheduling"), False),
    )  # fmt: skip


def groups_count(engine: Engine) -> int:
    """KV groups of a model whose layers differ, such as full and sliding attention: a request takes a block in each.

    The engine tells how many blocks its longest request takes, the one for padding in it. Sliding groups give up what
    is behind their window; here they keep it, so long requests are taken to need more than they do.
    """
    longest = number(engine.config.get("kv_context_blocks"))
    side, context = number(engine.config.get("block_size")), number(engine.config.get("max_model_len"))
    if not longest or not side or not context:
        return 1
    return max(1, round((longest - 1) / math.ceil(context / side)))


def changed(settings: Settings, candidate: Candidate) -> Settings:
    """Raises CannotAnswer for a knob that a twin cannot follow, AskedWrongly for a value that makes no sense."""
    strange = [s.knob for s in candidate if s.knob not in FIELDS]
    if strange:
        raise CannotAnswer(
            f"{', '.join(strange)}: what that does to a step is not in the recording, so nothing is predicted. "
            f"Followed are {', '.join(FIELDS)}. Try: pellucid try"
        )
    values: dict[str, Value] = {FIELDS[s.knob]: s.value for s in candidate}
    for name in ("sequence_cap_count", "token_budget_tokens", "long_prefill_tokens", "kv_blocks_count"):
        if name in values:
            values[name] = int(values[name])
    return replace(settings, **values)    # type: ignore[arg-type]      # each field has its knob's type


def _minor(version: str) -> tuple[int, int]:
    """(0, 32) of 0.32.0; nothing is older than a version that does not read."""
    parts = version.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and all(p.isdigit() for p in parts[:2]) else (0, 0)


def _is(value: Plain, otherwise: bool) -> bool:
    return value if isinstance(value, bool) else otherwise
