"""One placement looked at from all sides: what fits, how fast it can be at best, what was seen of its like.

    outlook(setting, Placement(tp=8))     Outlook(fit=Fit(…), batch_count=64, steady=Timing(…), output_per_s=9_400, …)

A speed has three values: a bound that nothing exceeds (all resources overlap), the roofs in turn (each operation at its
own, one after another: what placements are compared by), and the range of engines that were seen, where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.catalog.devices.gpus import Device
from pellucid.catalog.devices.seen import Seen
from pellucid.core.units import S_NS
from pellucid.physics.cache import CacheFormat
from pellucid.physics.ceilings import peak_ceilings
from pellucid.physics.geometry import Geometry
from pellucid.physics.memory import activation_bytes
from pellucid.sim.paper.fit import Fit, Room, Span, fit
from pellucid.sim.paper.held import KvHeld, kv_on, request_on, weights_on
from pellucid.sim.paper.nearness import nearness, steady_range
from pellucid.sim.paper.placement import Placement, Way
from pellucid.sim.paper.speed import (
    Model,
    Timing,
    Traffic,
    decode_time,
    prompt_time,
    prompts_per_s,
    steady_time,
    with_requests,
)

MOST_REQUESTS = 8192       # chosen: where the search for a batch ends


@dataclass(frozen=True, slots=True)
class Setting:
    """All that placements of one question have in common."""

    geometry: Geometry
    cache: CacheFormat
    device: Device
    domain: int
    room: Room
    reserve: Span
    page_tokens: int
    step_tokens: int               # that a step may have at most: activations are made for so many
    traffic: Traffic
    seen: Seen

    def model(self, placement: Placement) -> Model:
        ceilings = peak_ceilings(self.device)
        return Model(self.geometry, Way(placement, self.domain, self.cache, ceilings.precisions), ceilings)



@dataclass(frozen=True, slots=True)
class Speed:
    """At one number of requests under way."""

    requests_count: int
    decode: Timing
    steady: Timing
    steady_seen_ns: Span | None    # None where too few engines like it were seen
    tokens_factor: int             # of a step for a request: 1, and 1 for each draft, all of them kept

    @property
    def output_most_per_s(self) -> float:
        return self._rate(self.steady.least_ns)

    @property
    def output_in_turn_per_s(self) -> float:
        return self._rate(self.steady.in_turn_ns)

    @property
    def output_seen_per_s(self) -> Span | None:
        found = self.steady_seen_ns
        return None if found is None else Span(self._rate(found.high), self._rate(found.low))

    @property
    def tpot_least_ns(self) -> float:
        return self.steady.least_ns / self.tokens_factor

    def _rate(self, step_ns: float) -> float:
        return self.requests_count * self.tokens_factor * S_NS / step_ns


@dataclass(frozen=True, slots=True)
class Outlook:
    placement: Placement
    fit: Fit
    kv: KvHeld
    requests_fit_count: Span       # over all GPUs
    prompt: Timing                 # alone
    prompt_tokens_most_per_s: float
    speed: Speed | None            # with as many requests as may fit; None where not one does
    sure: Speed | None             # with as many as fit beside the largest reserve; None where not one does
    at_target: Speed | None        # with as many as meet the target, roofs in turn; None where none does
    in_time_most_count: int | None     # as many as could at best; None without a target


def outlook(setting: Setting, placement: Placement, target_ns: float | None = None) -> Outlook:
    """Raises CannotAnswer where the device has no ceiling for something that the model needs."""
    model, traffic = setting.model(placement), setting.traffic
    kv = kv_on(setting.geometry, model.way, setting.page_tokens)
    found = _fit(setting, model, kv)
    room_for = found.requests_count.times(placement.dp)
    most, sure = (int(min(traffic.concurrency, n)) for n in (room_for.high, room_for.low))
    room, timed, at_best = int(min(room_for.high, MOST_REQUESTS)), 0, None
    if target_ns is not None:
        timed, at_best = (in_time(setting, model, room, target_ns, bound) for bound in (False, True))
    return Outlook(
        placement, found, kv, room_for, prompt_time(model, traffic.prompt_tokens),
        prompts_per_s(model, traffic.prompt_tokens) * traffic.prompt_tokens,
        speed(setting, model, most) if most else None, speed(setting, model, sure) if sure else None,
        speed(setting, model, timed) if timed else None, at_best,
    )  # fmt: skip


def speed(setting: Setting, model: Model, requests_count: int) -> Speed:
    traffic, (busy, batch) = setting.traffic, with_requests(model, requests_count)
    return Speed(
        requests_count, decode_time(busy, batch, traffic.context_tokens, traffic.drafts),
        steady_time(busy, traffic, batch), _seen(setting, busy, batch), 1 + traffic.drafts,
    )  # fmt: skip


def _seen(setting: Setting, model: Model, batch: int) -> Span | None:
    """Engines were seen on one GPU, without drafts, and with weights in some formats: nothing is carried over."""
    p, traffic = model.way.placement, setting.traffic
    near = nearness("decode", setting.device.key, setting.seen.speeds)
    if near is None or p.tp * p.pp > 1 or p.ep or traffic.drafts:
        return None
    formats = {fmt.name for _, fmt in setting.geometry.quantization.groups} or {setting.geometry.dtype.name}
    return steady_range(model, traffic, batch, setting.seen.speeds) if formats <= set(near.weights) else None


def _fit(setting: Setting, model: Model, kv: KvHeld) -> Fit:
    geometry, way, traffic = setting.geometry, model.way, setting.traffic
    rows = min(setting.step_tokens, traffic.concurrency * (1 + traffic.drafts))
    active = activation_bytes(geometry, setting.step_tokens, rows, way.placement.tp)
    one = request_on(geometry, way, traffic.longest_tokens, setting.page_tokens)
    weights = weights_on(geometry, way, mtp=traffic.drafts > 0)
    return fit(weights, active, kv, one, setting.room, setting.reserve)


def in_time(setting: Setting, model: Model, most: int, target_ns: float, bound: bool) -> int:
    """How many requests, up to `most`, have their tokens within the target, with equal batches on all replicas: at the
    bound, or with the roofs in turn. 0 where one on each is too slow."""
    parts = model.way.placement.dp * model.way.placement.pp
    low, high = 0, max(1, most // parts)
    while low < high:
        batch = (low + high + 1) // 2
        timing = steady_time(model, setting.traffic, batch)
        step_ns = timing.least_ns if bound else timing.in_turn_ns
        met = step_ns / (1 + setting.traffic.drafts) <= target_ns
        low, high = (batch, high) if met else (low, batch - 1)
    return min(most, low * parts)
