"""The matrix products of one layer, from its tensors, as one rank computes them.

    products(geometry, layer, 0, plan, tokens=64)     parts qkv, o, gate_up, down, …

Tensors of one product share the input: it is read once. Where the precision is narrower than the activations, making
them so is a part of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from pellucid.physics.formats import FP8, INT8_CHANNEL, NVFP4, Format, Precision
from pellucid.physics.formulae.matmul import ACTIVATION_BLOCK
from pellucid.physics.formulae.pointwise import quantize
from pellucid.physics.geometry import Geometry, Layer
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Plan
from pellucid.physics.step.part import StepPart
from pellucid.physics.tensors import Tensor, layer_tensors
from pellucid.physics.work import Work

INPUTS: Mapping[Precision, Format] = {"fp8": FP8, "int8": INT8_CHANNEL, "fp4": NVFP4}
Stored = tuple[Tensor, Format]
ELSEWHERE = ("experts", "kv_b", "")     # counted by ffn and mixer, or no product


def products(geometry: Geometry, layer: Layer, index: int, plan: Plan, tokens: int) -> Iterator[StepPart]:
    """Of `tokens` tokens through one layer. Router scores are of the class moe_routing, all else is gemm."""
    for product, group in _grouped(geometry, layer, index):
        kernel_class = "moe_routing" if product == "router" else "gemm"
        yield from product_parts(f"{_where(product)}{product}", kernel_class, group, plan, tokens)


@lru_cache(maxsize=4096)
def _grouped(geometry: Geometry, layer: Layer, index: int) -> tuple[tuple[str, tuple[Stored, ...]], ...]:
    groups: dict[str, list[Tensor]] = {}
    for tensor in layer_tensors(geometry, layer, index):
        if tensor.product not in ELSEWHERE:
            groups.setdefault(tensor.product, []).append(tensor)
    return tuple((product, stored(geometry, group)) for product, group in groups.items())


def stored(geometry: Geometry, group: Iterable[Tensor]) -> tuple[Stored, ...]:
    return tuple((tensor, stored_format(geometry, tensor)) for tensor in group)


def _where(product: str) -> str:
    if product in ("gate_up", "down"):
        return "mlp."
    return "moe." if product in ("router", "shared_up", "shared_down") else "mixer."


def product_parts(
    name: str, kernel_class: str, group: Sequence[Stored], plan: Plan, tokens: int
) -> Iterator[StepPart]:
    first, first_format = group[0]
    narrow = INPUTS.get(plan.computes(first_format.compute))
    columns = cut(first, plan)[1]
    if narrow is not None:
        work = quantize(tokens, columns, narrow, plan.activations)
        yield StepPart(f"{name}.quantize", "quant", 1, work)
    inputs = narrow or plan.activations
    scales = 4 * tokens * -(-columns // ACTIVATION_BLOCK) if narrow is not None else 0
    work = Work((), tokens * columns * inputs.element_bytes + scales)
    for tensor, fmt in group:
        rows, inner = cut(tensor, plan)
        moved = fmt.stored_bytes(rows, inner) + tokens * rows * plan.activations.element_bytes
        work += Work.of(plan.computes(fmt.compute), 2.0 * tokens * rows * inner, moved)
    yield StepPart(name, kernel_class, 1, work)


def cut(tensor: Tensor, plan: Plan) -> tuple[int, int]:
    """Rows and columns of a rank's part."""
    if tensor.part in ("lm_head", "embedding"):
        return -(-tensor.rows // plan.tp), tensor.columns       # engines fill the vocabulary up
    if tensor.split == "rows":
        return plan.share(tensor.rows, f"rows of {tensor.module}"), tensor.columns
    if tensor.split == "columns":
        return tensor.rows, plan.share(tensor.columns, f"columns of {tensor.module}")
    if tensor.split == "kv_heads":
        width = tensor.rows // tensor.kv_heads_count
        return width * plan.kv_heads(tensor.kv_heads_count), tensor.columns
    return tensor.rows, tensor.columns
