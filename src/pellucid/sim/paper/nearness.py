"""A range for a time, from how near engines came to their roofs: parts of a step in turn → what steps like it took.

    nearness("decode", "h200", seen().speeds)      Nearness(call_ns=3_950, ratio=Span(0.51, 1.13), models=(…), …)
    nearness(…).time_ns(timing)                    Span(low=9_100_000, high=16_400_000)

    time = (parts in turn + operations · call_ns) ÷ ratio

call_ns is what an operation takes beside its roof, on the host or between kernels: of decodes the value that brings the
ratios of all steps seen nearest to each other; of prompts none, since their operations are long. The ratios' ends are
then drawn apart until nine in ten steps are inside the range that the other models' steps make. That is a check on the
very rows it was made of, and the models are few: the count is said beside every range. With fewer than three models
there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from pellucid.catalog.devices.seen import Phase, Speed
from pellucid.sim.paper.fit import Span
from pellucid.sim.paper.speed import Model, Timing, Traffic, decode_time, more_prompts, steady_time

FEWEST_MODELS = 3          # chosen: with two, leaving one out leaves an anecdote
HELD_RATIO = 0.9           # chosen: the coverage that a range is said to have
CALLS_NS = range(0, 12_001, 50)     # a kernel's launch takes some microseconds; beyond it is no launch any more


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near steps of one kind came, on one device."""

    call_ns: float
    ratio: Span                    # drawn apart
    seen_ratio: Span               # as seen
    rows_count: int
    held_count: int                # rows inside the seen range of the other models
    models: tuple[str, ...]
    weights: tuple[str, ...]       # formats that were seen

    def time_ns(self, timing: Timing) -> Span:
        """Never below the floor."""
        whole = timing.in_turn_ns + timing.calls_count * self.call_ns
        return Span(max(timing.least_ns, whole / self.ratio.high), max(timing.least_ns, whole / self.ratio.low))


def nearness(phase: Phase, device: str, speeds: Sequence[Speed]) -> Nearness | None:
    """None where too few models were seen so on one GPU of the device."""
    return _nearness(tuple(s for s in speeds if (s.phase, s.device, s.gpus_count) == (phase, device, 1)))


@lru_cache(maxsize=64)
def _nearness(rows: tuple[Speed, ...]) -> Nearness | None:
    models = tuple(dict.fromkeys(row.model for row in rows))
    if len(models) < FEWEST_MODELS:
        return None
    others = {name: [row for row in rows if row.model != name] for name in models}
    made = {name: _drawn(rest) for name, rest in others.items()}
    beyond = sorted(_beyond(_ratio(row, made[row.model][0]), made[row.model][1]) for row in rows)
    widen = beyond[ceil(HELD_RATIO * len(rows)) - 1]
    call_ns, ratio = _drawn(rows)
    return Nearness(call_ns, Span(ratio.low / widen, ratio.high * widen), ratio, len(rows),
                    sum(b <= 1 for b in beyond), models, tuple(dict.fromkeys(row.weights for row in rows)))  # fmt: skip


def _drawn(rows: Sequence[Speed]) -> tuple[float, Span]:
    """The time of a call with which the ratios differ least, and their ends."""
    tried = CALLS_NS if rows[0].phase == "decode" else (0,)
    spans = [(call_ns, [_ratio(row, call_ns) for row in rows]) for call_ns in tried]
    call_ns, ratios = min(spans, key=lambda pair: max(pair[1]) / min(pair[1]))
    return float(call_ns), Span(min(ratios), max(ratios))


def _ratio(row: Speed, call_ns: float) -> float:
    return (row.in_turn_ns + call_ns * row.calls_count) / row.taken_ns


def _beyond(ratio: float, span: Span) -> float:
    """The factor by which a range has to be drawn apart to hold this; 1 where it does."""
    return max(1.0, span.low / ratio, ratio / span.high)


def steady_range(model: Model, traffic: Traffic, batch: int, speeds: Sequence[Speed]) -> Span | None:
    """Of a step with its share of prompts: that of its decodes, and of the prompts beside them."""
    near, prompts = (nearness(phase, model.ceilings.device, speeds) for phase in ("decode", "prompt"))
    if near is None or prompts is None:
        return None
    share = batch * (1 + traffic.drafts) / traffic.output_tokens
    decode = near.time_ns(decode_time(model, batch, traffic.context_tokens, traffic.drafts))
    prompt = prompts.time_ns(more_prompts(model, traffic.prompt_tokens))
    least = steady_time(model, traffic, batch).least_ns
    return Span(max(least, decode.low + share * prompt.low), max(least, decode.high + share * prompt.high))
