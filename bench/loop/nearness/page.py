"""What was seen as tables of docs/predict_on_paper.md, and what the ranges made of it are worth.

    speed_table(seen().speeds)      "| model | weights | engine | kind | requests | roofs in turn | taken | ratio |", …
    said_of(seen().speeds)          "decode: 3.95 µs a call, ratios 0.62 to 0.92, …", …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.loop.nearness.runs import model_on_h200
from pellucid.catalog.devices.seen import Reserve, Speed
from pellucid.core.units import percent
from pellucid.sim.paper.fit import Span
from pellucid.sim.paper.nearness import nearness, steady_range
from pellucid.sim.paper.speed import Traffic

GIB, MS_NS = 2**30, 1e6


def speed_table(found: Sequence[Speed]) -> Iterator[str]:
    yield "| model | weights | engine | kind | requests | roofs in turn, ms | taken, ms | ratio |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in found:
        yield (f"| {row.model} | {row.weights} | {row.engine} | {row.phase} | {row.batch_count} | "
               f"{row.in_turn_ns / MS_NS:.2f} | {row.taken_ns / MS_NS:.2f} | {row.ratio:.2f} |")  # fmt: skip


def reserve_table(kept: Sequence[Reserve]) -> Iterator[str]:
    yield "| model | GPU | engine | weights, GiB | loaded, GiB | KV found, GiB | reserve, GiB | of the GPU |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in kept:
        loaded = f"{row.loaded_bytes / GIB:.2f}" if row.loaded_bytes else "not said"
        sizes = f"{row.kv_bytes / GIB:.2f} | {row.reserve_bytes / GIB:.2f} | {percent(row.of_device_ratio)} |"
        yield f"| {row.model} | {row.device} | {row.engine} | {row.weights_bytes / GIB:.2f} | {loaded} | {sizes}"


def said_of(found: Sequence[Speed]) -> Iterator[str]:
    """What the ranges made of the rows are, and whether they hold."""
    for phase in ("decode", "prompt", "first"):
        near = nearness(phase, "h200", found)
        if near is None:
            yield f"{phase}: too few models, no range"
            continue
        yield (f"{phase}: {near.call_ns / 1000:.2f} µs a call, ratios {near.seen_ratio.low:.2f} to "
               f"{near.seen_ratio.high:.2f}, drawn apart {near.ratio.low:.2f} to {near.ratio.high:.2f}; "
               f"{near.held_count} of {near.rows_count} rows inside what the other models make")  # fmt: skip
    rows = [row for row in found if row.phase == "steady"]
    inside = sum(span.low <= row.taken_ns <= span.high for row in rows if (span := steady_span(row, found)))
    yield f"steady: {inside} of {len(rows)} rows inside the range that decodes and prompts make"


def steady_span(row: Speed, found: Sequence[Speed]) -> Span | None:
    model = model_on_h200(row.model)
    traffic = Traffic(row.prompt_tokens, row.output_tokens, row.batch_count)
    return steady_range(model, traffic, row.batch_count, found)
