"""Lines of the child that drives the engine's own scheduler (pellucid_probe.vllm.offline.schedule), one type for each.

    {"kind": "step", "step": 1, "start_ns": 9000000, "prefills": [[44, 300, true]], "decode_count": 0, …} → PlannedStep
    {"kind": "request", "request": 0, "first_step": 0, "token_steps": [[1, 2]], …}                        → RequestLine

Names are the store's where it has the thing.
"""

from __future__ import annotations

import msgspec


class Prefill(msgspec.Struct, frozen=True, array_like=True):
    tokens: int                  # positions of one request computed in this step
    context_tokens: int          # up to the last of them
    samples: bool                # whether a token comes of it: not, while the prompt is computed in part


class PlannedStep(msgspec.Struct, frozen=True, tag_field="kind", tag="step"):
    """What a step's time depends on; counts are those after planning."""

    step: int
    start_ns: int
    prefills: tuple[Prefill, ...]        # of prompts, and of what is computed again after a preemption
    decode_count: int                    # requests with one position each
    decode_context_tokens: int           # their contexts, added up
    running_count: int
    waiting_count: int
    preempted_count: int
    kv_used_blocks_count: int


class RequestLine(msgspec.Struct, frozen=True, tag_field="kind", tag="request"):
    request: int
    first_step: int
    token_steps: tuple[tuple[int, int], ...]
    preemptions_count: int
    cached_tokens: int
    finish_reason: str


class Refused(msgspec.Struct, frozen=True, tag_field="kind", tag="refused"):
    request: int                 # its place among those asked, from 0 on
    reason: str


class Ready(msgspec.Struct, frozen=True, tag_field="kind", tag="ready"):
    engine_version: str
    settings: dict[str, bool | int | float | str]      # the engine's names; its own defaults too
    notes: tuple[str, ...]


class Error(msgspec.Struct, frozen=True, tag_field="kind", tag="error"):
    what: str                    # asked, version or engine
    message: str


class End(msgspec.Struct, frozen=True, tag_field="kind", tag="end"):
    steps_count: int
    clock_ns: int
    served_count: int
    refused_count: int
    prefill_tokens: int
    output_tokens: int
    preempted_count: int


Line = PlannedStep | RequestLine | Refused | Ready | Error | End
