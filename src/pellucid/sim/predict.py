"""A model of steps, settings and asks → what would be measured, each with an interval.

    predicted = predict(asks, settings, Twin(model, delay_ns))
    predicted.measures["ttft_p95_ns"]      Value(value=812e6, low=640e6, high=1_100e6)

The workload is played several times: with steps as they scatter, and with all steps slower or faster by as much as
stretches that the model had not been fitted on were off. An interval spans all of these, so what a small error in a
step does to a queue near its limit is in it. `outside` says how much of the predicted time lies where no step was seen:
there a step may take half as long again or half as long, which nobody has checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pellucid.core.units import S_NS
from pellucid.sim.engine.request import Ask, Refused
from pellucid.sim.engine.run import Ran, StepTime, run
from pellucid.sim.engine.schedule import Planned
from pellucid.sim.engine.settings import Settings
from pellucid.sim.outcome import Timed, measures, of_ran
from pellucid.sim.step.energy import JOULES, Energy
from pellucid.sim.step.model import Off, StepModel

LEVEL = 0.9
SEEDS = (1, 2, 3)
UNSEEN_RATIO = 0.5      # chosen: how far off a step may be that is larger than any that was seen
LEAST_RATIO = 0.01     # chosen: nearer than one percent is never claimed, however well steps are known


Measured = dict[str, float | None]
Also = Callable[[Timed], Measured]
Player = Callable[[Sequence[Ask], Settings, StepTime, float], Ran]


def _nothing(_timed: Timed) -> Measured:
    return {}


@dataclass(frozen=True, slots=True)
class Twin:
    model: StepModel
    delay_ns: float                    # from arrival at the frontend to the queue
    energy: Energy | None = None       # None where no board's energy was recorded


@dataclass(frozen=True, slots=True)
class Value:
    value: float
    low: float
    high: float

    @property
    def half_width_ratio(self) -> float:
        return (self.high - self.low) / 2 / self.value if self.value else 0.0


@dataclass(frozen=True, slots=True)
class Predicted:
    measures: dict[str, Value | None]
    off: Off                           # what the interval rests on
    refused: tuple[Refused, ...]
    served_count: int
    steps_count: int
    preemptions_count: int
    running_mean_count: float          # by time
    waiting_mean_count: float
    kv_used_peak_ratio: float
    busy_ratio: float                  # of the time from the first arrival to the last token
    outside: dict[str, float]          # what was beyond the steps seen → share of the steps' time
    rounds: tuple[Measured, ...]       # each time it was played: alike in two predictions of one twin


def predict(
    asks: Sequence[Ask], settings: Settings, twin: Twin, also: Also = _nothing, seeds: Sequence[int] = SEEDS,
    player: Player = run,
) -> Predicted:  # fmt: skip
    """`also`: measures of one's own, such as goodput under limits that only the caller knows. `player`: who follows the
    schedule; ours, or the engine's own."""
    beyond: Counter[str] = Counter()
    middle, ran = _played(asks, settings, twin, also, seeds[0], 1.0, player, beyond)
    took = (ran.ends_ns - ran.starts_ns).astype(np.float64)
    total = float(took.sum()) or 1.0
    outside = {name: ns / total for name, ns in beyond.items()}
    off = twin.model.off(LEVEL, len(ran.ends_ns))
    unseen = UNSEEN_RATIO * sum(outside.values())
    others = [middle]
    for seed in seeds[1:]:
        others.append(_played(asks, settings, twin, also, seed, 1.0, player)[0])
    for times in (off.low * (1 - unseen), off.high * (1 + unseen)):
        others += [_played(asks, settings, twin, also, seed, times, player)[0] for seed in seeds[:2]]
    span = float(ran.ends_ns[-1] - min(s.arrived_ns for s in ran.served)) if ran.served else 1.0
    values = {name: _value(name, others[: len(seeds)], others) for name in middle}
    if twin.energy is not None and (drawn := values[JOULES]) is not None:
        values[JOULES] = replace(drawn, low=drawn.low * twin.energy.low, high=drawn.high * twin.energy.high)
    return Predicted(
        values, off, ran.refused, len(ran.served),
        len(took), ran.preemptions_count, float((ran.running * took).sum()) / total,
        float((ran.waiting * took).sum()) / total,
        float(ran.kv_used_blocks.max()) / settings.kv_blocks_count if len(took) else 0.0, total / span,
        outside, tuple(others),
    )  # fmt: skip


def gain(name: str, candidate: Predicted, present: Predicted) -> Value | None:
    """By how much the one is more than the other, played with the same draws and the same errors of the steps."""
    pairs = [(a[name], b[name]) for a, b in zip(candidate.rounds, present.rounds, strict=True)]
    ratios = [one / other - 1 for one, other in pairs if one is not None and other]
    return Value(ratios[0], min(ratios), max(ratios)) if len(ratios) == len(pairs) and ratios else None


def quick(
    asks: Sequence[Ask], settings: Settings, twin: Twin, also: Also = _nothing, seed: int = SEEDS[0]
) -> Measured:  # fmt: skip
    """Played once, without an interval: for a search, which looks at many settings."""
    return _played(asks, settings, twin, also, seed, 1.0)[0]


def _played(
    asks: Sequence[Ask], settings: Settings, twin: Twin, also: Also, seed: int, times: float, player: Player = run,
    beyond: Counter[str] | None = None,
) -> tuple[Measured, Ran]:  # fmt: skip
    drawn = twin.model.drawn(seed, times)

    def step_ns(planned: Planned) -> float:
        took = drawn(planned)
        if beyond is not None and (name := twin.model.outside(planned)):
            beyond[name] += int(took)
        return took

    ran = player(asks, settings, step_ns, twin.model.alone_ns)
    timed = of_ran(ran, asks, twin.delay_ns)
    return {**measures(timed), **also(timed), **_joules(timed, ran, twin.energy)}, ran


def _joules(timed: Timed, ran: Ran, energy: Energy | None) -> Measured:
    """From the first arrival to the last token."""
    if energy is None:
        return {}
    if not len(timed):
        return {JOULES: None}
    span_s = float(timed.last_ns.max() - timed.arrived_ns.min()) / S_NS
    busy_s = float((ran.ends_ns - ran.starts_ns).sum()) / S_NS
    return {JOULES: energy.joules(span_s, busy_s, float(ran.tokens.sum())) / float(timed.tokens.sum())}


def _value(name: str, middle: list[Measured], every: list[Measured]) -> Value | None:
    values = [v for found in every if (v := found[name]) is not None]
    means = [v for found in middle if (v := found[name]) is not None]
    if not means:
        return None
    value = float(np.mean(means))
    return Value(value, min(*values, value * (1 - LEAST_RATIO)), max(*values, value * (1 + LEAST_RATIO)))
