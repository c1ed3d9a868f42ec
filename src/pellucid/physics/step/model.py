"""The whole step of a model on one rank: geometry, batch, plan → parts, each with its work.

    parts = step_work(geometry, Batch(decodes=(1000,) * 64), Plan())
    step_total(parts).moved_bytes        what a decode of 64 requests must at least move
    by_class(parts)["moe_gemm"]          the same for the kernels of one class

Compulsory work: weights once a step, cache once, activations once in and out of each operation, as engines launch
them (normalised, projected, rotated, cached, attended, …). What a kernel fuses, it need not move. MTP heads do not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from pellucid.core.errors import CannotAnswer
from pellucid.physics.formats import Format
from pellucid.physics.formulae.collective import all_gather, all_reduce
from pellucid.physics.formulae.pointwise import embedding, norm, sampling
from pellucid.physics.geometry import Geometry, Layer, Moe
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Batch, Plan
from pellucid.physics.step.ffn import ffn_parts
from pellucid.physics.step.matrices import Stored, product_parts, products, stored
from pellucid.physics.step.mixer import mixer_parts
from pellucid.physics.step.part import StepPart, merged, times
from pellucid.physics.tensors import layer_tensors, tensors
from pellucid.physics.work import Work


def step_work(geometry: Geometry, batch: Batch, plan: Plan | None = None) -> tuple[StepPart, ...]:
    """Raises CannotAnswer where the plan cuts what cannot be cut, or counts experts of other layers than there are.

    An empty batch is no step: no parts.
    """
    if not batch.tokens:
        return ()
    plan = plan or Plan()
    return merged((*_before(geometry, batch, plan), *_layers(geometry, batch, plan), *_after(geometry, batch, plan)))


def _before(geometry: Geometry, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    yield StepPart("embedding", "embedding", 1, embedding(batch.tokens, geometry.hidden, geometry.dtype))
    yield from _reduce("embedding.reduce", geometry, batch, plan)


def _layers(geometry: Geometry, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    """Layers alike are counted once, unless somebody counted their experts."""
    counted = plan.tokens_by_expert
    sparse = [index for index, layer in enumerate(geometry.layers) if isinstance(layer.ffn, Moe)]
    if counted is not None and len(counted) != len(sparse):
        raise CannotAnswer(f"experts were counted in {len(counted)} layers, and {len(sparse)} layers have any")
    own = dict(zip(sparse, counted or (), strict=False))
    kinds = Counter((first, own.get(index)) for index, first in enumerate(first_alike(geometry)))
    for (index, tokens_by_expert), count in kinds.items():
        layer = geometry.layers[index]
        yield from times(layer_parts(geometry, layer, index, batch, plan, tokens_by_expert), count)


@lru_cache(maxsize=64)
def first_alike(geometry: Geometry) -> tuple[int, ...]:
    """For each layer the first one of the same shape in the same formats: a quantization may name layers one by one."""
    first: dict[tuple[Layer, tuple[Format, ...]], int] = {}
    found = []
    for index, layer in enumerate(geometry.layers):
        formats = tuple(stored_format(geometry, t) for t in layer_tensors(geometry, layer, index) if t.product)
        found.append(first.setdefault((layer, formats), index))
    return tuple(found)


def layer_parts(
    geometry: Geometry, layer: Layer, index: int, batch: Batch, plan: Plan, counted: tuple[int, ...] | None = None
) -> Iterator[StepPart]:
    """One layer, in parts."""
    work = norm(batch.tokens, geometry.hidden, True, plan.activations).times(layer.norms_count)
    yield StepPart("norm", "norm", layer.norms_count, work)
    yield from products(geometry, layer, index, plan, batch.tokens)
    yield from mixer_parts(geometry, layer, index, batch, plan)
    yield from _reduce("mixer.reduce", geometry, batch, plan)
    if layer.ffn is not None:
        yield from ffn_parts(geometry, layer, index, batch, plan, counted)
        yield from _reduce("ffn.reduce", geometry, batch, plan)


def _reduce(name: str, geometry: Geometry, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    if plan.tp > 1:
        yield StepPart(name, "comm", 1, reduced(geometry, batch, plan))


def reduced(geometry: Geometry, batch: Batch, plan: Plan) -> Work:
    """One sum of the step's activations over the ranks that cut a layer."""
    message = batch.tokens * geometry.hidden * plan.activations.element_bytes
    return all_reduce(message, plan.ranks(plan.tp), plan.all_reduce)


@lru_cache(maxsize=64)
def _head(geometry: Geometry) -> tuple[Stored, ...]:
    return stored(geometry, (t for t in tensors(geometry) if t.product == t.part == "lm_head"))


def _after(geometry: Geometry, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    yield StepPart("norm", "norm", 1, norm(batch.tokens, geometry.hidden, True, plan.activations))
    if not batch.rows:
        return
    yield from product_parts("lm_head", "gemm", _head(geometry), plan, batch.rows)
    if plan.tp > 1:
        message = batch.rows * geometry.vocabulary * plan.activations.element_bytes
        yield StepPart("lm_head.gather", "comm", 1, all_gather(message, plan.ranks(plan.tp)))
    yield StepPart("sampling", "sampling", 1, sampling(batch.rows, geometry.vocabulary))
