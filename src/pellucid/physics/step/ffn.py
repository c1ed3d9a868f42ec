"""The feed-forward part of one layer between its products: activation, experts, and their exchange between ranks.

    ffn_parts(geometry, layer, batch, plan)      parts moe.experts, moe.combine, mlp.activation, …
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.core.errors import CannotAnswer
from pellucid.physics.formats import Format
from pellucid.physics.formulae.collective import all_to_all
from pellucid.physics.formulae.moe import Shape, combine, experts, ranks_touched
from pellucid.physics.formulae.pointwise import activation, gated_activation
from pellucid.physics.geometry import Dense, Geometry, Layer, Moe
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Batch, Plan
from pellucid.physics.step.part import StepPart
from pellucid.physics.tensors import layer_tensors

ALIKE = "the other data-parallel ranks have a batch like this one"
SPREAD = "each token's experts are spread over the ranks at random"


def ffn_parts(
    geometry: Geometry, layer: Layer, index: int, batch: Batch, plan: Plan, counted: tuple[int, ...] | None = None
) -> Iterator[StepPart]:
    """`counted`: tokens that each expert of this rank got in this layer, where somebody counted."""
    ffn = layer.ffn
    if isinstance(ffn, Dense):
        width = plan.share(ffn.width, "columns of the feed-forward part")
        yield _activation("mlp.activation", ffn.gated, batch.tokens, width, plan.activations)
    elif isinstance(ffn, Moe):
        yield from _moe(geometry, layer, ffn, index, batch, plan, counted)


def _activation(name: str, gated: bool, tokens: float, width: int, fmt: Format) -> StepPart:
    work = gated_activation(tokens, width, fmt) if gated else activation(tokens, width, fmt)
    return StepPart(name, "activation", 1, work)


def _moe(
    geometry: Geometry, layer: Layer, f: Moe, index: int, batch: Batch, plan: Plan, counted: tuple[int, ...] | None
) -> Iterator[StepPart]:
    if plan.ep > 1 and f.experts_count % plan.ep:
        raise CannotAnswer(f"{f.experts_count} experts cannot be shared out evenly over {plan.ep} ranks")
    cut = 1 if plan.ep > 1 else plan.tp
    if f.width % cut:
        raise CannotAnswer(f"experts of width {f.width} cannot be cut in {cut} equal parts")
    shape = Shape(f.experts_count, f.active_count, geometry.hidden, f.width // cut, f.gated)
    routed = next(t for t in layer_tensors(geometry, layer, index) if t.product == "experts")
    fmt = stored_format(geometry, routed)
    tokens, local = batch.tokens * plan.dp * plan.busy_ratio, f.experts_count // plan.ep
    if plan.ep > 1 and plan.dp > 1:
        yield from _exchange(geometry, f, batch, plan)
    alike = plan.dp > 1 and plan.busy_ratio == 1
    work = experts(shape, tokens, fmt, plan.activations, plan.computes(fmt.compute), counted, local)
    yield StepPart("moe.experts", "moe_gemm", 1, work.assuming(ALIKE) if alike else work)
    pairs = tokens * f.active_count / plan.ep if counted is None else float(sum(counted))
    yield _activation("moe.activation", f.gated, pairs, shape.width, plan.activations)
    yield StepPart("moe.combine", "moe_routing", 1,
                   combine(batch.tokens, f.active_count, geometry.hidden, plan.activations))  # fmt: skip
    if f.shared_width:
        width = plan.share(f.shared_width, "columns of the shared experts")
        yield _activation("moe.shared_activation", f.gated, batch.tokens, width, plan.activations)


def _exchange(geometry: Geometry, f: Moe, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    """Each token goes once to each rank with an expert of its own, and what that rank made of it comes back.

    A tensor-parallel group holds its tokens on all its ranks; each of them sends its share.
    """
    copies = ranks_touched(f.experts_count, f.active_count, plan.ep)
    message = batch.tokens / plan.tp * copies * geometry.hidden * plan.activations.element_bytes
    for name in ("moe.dispatch", "moe.return"):
        yield StepPart(name, "comm", 1, all_to_all(message, plan.ranks(plan.ep)).assuming(SPREAD))
