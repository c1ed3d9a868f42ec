"""How fast a placement can be at best: a batch → least time of a decode step, of a prompt, of a step in steady state.

    decode_time(model, batch=64, context_tokens=1500)       Timing(least_ns=…, in_turn_ns=…, limits=(("memory", …), …))
    prompt_time(model, 1000)                                a prompt alone: a floor of TTFT
    steady_time(model, Traffic(1000, 200, concurrency=64))  a step with its share of prompts: a floor of TPOT under load

least_ns    everything overlaps, what can be fused is fused, switches add up, dispatches are in 8 bits: the sum of each
            resource's work at its data sheet's rate. No engine is faster
in_turn_ns  the parts one after another, each at its own roof, as engines launch them. Engines were compared with this

A stage of a pipeline works on its own requests meanwhile: a token takes the time of all stages, and as many requests
as there are stages can be under way at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pellucid.core.errors import CannotAnswer
from pellucid.core.units import S_NS
from pellucid.physics.ceilings import Ceilings
from pellucid.physics.geometry import Geometry
from pellucid.physics.roof import NoRoof, Part, roof
from pellucid.physics.step.batch import Batch, Chunk
from pellucid.physics.step.model import reduced, step_work
from pellucid.physics.step.part import StepPart
from pellucid.physics.step.roofs import StepRoof, step_roof
from pellucid.physics.work import Work, total
from pellucid.sim.paper.placement import Way

# Operations on what another one has just made: a kernel that does both need not move it.
FUSED = frozenset(("norm", "rope", "activation", "quant", "embedding", "sampling", "moe_routing"))
FULL_STEP_TOKENS = 8192    # chosen: prompts computed together until weights no longer count, as engines batch them
MOST_PROMPTS = 1024        # chosen: of very short ones; what more would add is the same for each


@dataclass(frozen=True, slots=True)
class Traffic:
    """Raises ValueError where a length or the concurrency is below 1."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int               # requests under way, over all GPUs
    drafts: int = 0                # tokens drafted for each that is sampled, by MTP heads

    def __post_init__(self) -> None:
        if min(self.prompt_tokens, self.output_tokens, self.concurrency) < 1 or self.drafts < 0:
            raise ValueError("prompt, output and concurrency are 1 at least")

    @property
    def context_tokens(self) -> int:
        """Of a request halfway through its output: the mean over its decode steps."""
        return self.prompt_tokens + (self.output_tokens + 1) // 2

    @property
    def longest_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Model:
    """What runs where: all that a time depends on beside the batch."""

    geometry: Geometry
    way: Way
    ceilings: Ceilings


@dataclass(frozen=True, slots=True)
class Timing:
    least_ns: float
    in_turn_ns: float
    limits: tuple[tuple[Part, float], ...]     # of in_turn_ns, by what bound each part
    calls_count: float             # operations launched
    work: Work                     # what no engine does without
    disputed: tuple[str, ...]
    assumes: tuple[str, ...]

    def share(self, part: Part) -> float:
        """Of the time in turn; 0 where nothing was bound by it."""
        return dict(self.limits).get(part, 0.0) / self.in_turn_ns


def shared_out(requests_count: int, way: Way) -> int:
    """Requests in one step of one replica: the most that any has."""
    return -(-requests_count // (way.placement.dp * way.placement.pp))


def with_requests(model: Model, requests_count: int) -> tuple[Model, int]:
    """The model with its replicas as busy as so many requests make them, and the batch of the fullest."""
    batch = shared_out(requests_count, model.way)
    whole = batch * model.way.placement.dp * model.way.placement.pp
    return replace(model, way=replace(model.way, busy_ratio=requests_count / whole)), batch


def decode_time(model: Model, batch: int, context_tokens: int, drafts: int = 0) -> Timing:
    """`batch` requests in the step of one replica (or of each stage of it), each sees `context_tokens`."""
    return step_time(model, Batch(decodes=(context_tokens + drafts,) * batch, queries_count=1 + drafts))


def prompt_time(model: Model, prompt_tokens: int) -> Timing:
    """Nothing else runs, on other replicas neither."""
    alone = replace(model, way=replace(model.way, busy_ratio=1 / model.way.placement.dp))
    return step_time(alone, Batch(prefills=(Chunk(prompt_tokens, prompt_tokens),)))


@lru_cache(maxsize=512)
def more_prompts(model: Model, prompt_tokens: int) -> Timing:
    """What one prompt more adds to a step that is full of them: weights are read anyway, so they do not count."""
    count = min(max(1, FULL_STEP_TOKENS // prompt_tokens), MOST_PROMPTS)
    prompt = Chunk(prompt_tokens, prompt_tokens)
    few, many = (step_time(model, Batch(prefills=(prompt,) * n)) for n in (count, 2 * count))
    before = dict(few.limits)
    limits = tuple((part, max(0.0, ns - before.get(part, 0.0)) / count) for part, ns in many.limits)
    work = (many.work + few.work.times(-1)).times(1 / count)
    calls = few.calls_count / count        # a full step's, shared by its prompts
    return Timing(_least_ns(work, model.ceilings), (many.in_turn_ns - few.in_turn_ns) / count, limits, calls, work,
                  many.disputed, many.assumes)  # fmt: skip


def prompts_per_s(model: Model, prompt_tokens: int) -> float:
    """Prompts a second of all replicas at most, where nothing else runs."""
    return model.way.placement.dp * model.way.placement.pp * S_NS / more_prompts(model, prompt_tokens).least_ns


def steady_time(model: Model, traffic: Traffic, batch: int) -> Timing:
    """A step with `batch` decodes and its share of prompts, where each request that ends is replaced: the mean."""
    decode = decode_time(model, batch, traffic.context_tokens, traffic.drafts)
    prompt = more_prompts(model, traffic.prompt_tokens)
    share = batch * (1 + traffic.drafts) / traffic.output_tokens        # prompts in a step
    work = decode.work + prompt.work.times(share)
    limits = dict(decode.limits)
    for part, ns in prompt.limits:
        limits[part] = limits.get(part, 0.0) + ns * share
    return Timing(
        _least_ns(work, model.ceilings), decode.in_turn_ns + prompt.in_turn_ns * share, tuple(limits.items()),
        decode.calls_count + prompt.calls_count * share, work,
        tuple(dict.fromkeys((*decode.disputed, *prompt.disputed))),
        tuple(dict.fromkeys((*decode.assumes, *prompt.assumes))),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def step_time(model: Model, batch: Batch) -> Timing:
    """Raises CannotAnswer where the device has no ceiling for what the step needs."""
    plan = model.way.plan
    parts = list(step_work(model.geometry, batch, plan))
    work = _needed(parts, reduced(model.geometry, batch, replace(plan, all_reduce="switch")))
    if (pp := model.way.placement.pp) > 1:
        sent = batch.tokens * model.geometry.hidden * plan.activations.element_bytes
        work += Work(link_bytes=(pp - 1) * sent)
        parts.append(StepPart("stage.send", "comm", pp - 1, Work(link_bytes=(pp - 1) * sent)))
    turn = step_roof(parts, model.ceilings)
    if not isinstance(turn, StepRoof):
        raise CannotAnswer(turn.reason)
    limits: dict[Part, float] = {}
    for _, found in turn.parts:
        limits[found.binds] = limits.get(found.binds, 0.0) + found.time_ns
    least_ns = _least_ns(work, model.ceilings)
    calls = sum(part.calls_count for part in parts)
    return Timing(least_ns, turn.time_ns, tuple(limits.items()), calls, work, turn.disputed, turn.assumes)


def _needed(parts: Sequence[StepPart], switched: Work) -> Work:
    """What no engine does without; `switched` in place of each sum over the ranks."""
    return total(_at_least(part, switched) for part in parts if part.kernel_class not in FUSED)


def _at_least(part: StepPart, switched: Work) -> Work:
    if part.part.endswith(".reduce"):
        return switched.times(part.calls_count)
    return part.work.times(0.5) if part.part == "moe.dispatch" else part.work


def _least_ns(work: Work, ceilings: Ceilings) -> float:
    found = roof(work, ceilings)
    if isinstance(found, NoRoof):
        raise CannotAnswer(found.reason)
    return found.time_ns
