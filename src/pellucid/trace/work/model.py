"""What is known of the model that ran: from its configuration, or from the shapes of operators in the trace.

    model_of_shapes(2048, operators)   Model(hidden=2048, heads=Heads(32, 4, 128, 128), experts=Shape(128, 8, …))

Sizes are those on one device. What no operator showed is None, and what depends on it is not reckoned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pellucid.catalog.kernels.op_shapes import Attention, entry_of, op_shapes
from pellucid.physics import geometry as g
from pellucid.physics.formats import BF16, Format
from pellucid.physics.formulae.attention import Heads
from pellucid.physics.formulae.moe import Shape
from pellucid.trace.work.operators import FORMATS, Operator


@dataclass(frozen=True, slots=True)
class Model:
    hidden: int | None = None
    heads: Heads | None = None
    latent: g.Mla | None = None     # latent attention, in its place
    linear: g.Linear | None = None  # linear attention, beside either
    experts: Shape | None = None
    weights: Format = BF16
    cache: Format = BF16
    basis: str = "shapes"           # shapes or geometry


def model_of_shapes(hidden: int | None, operators: Iterable[Operator]) -> Model:
    heads: Heads | None = None
    cache, weights = BF16, BF16
    routing: tuple[int, int, int] | None = None         # tokens, experts of each, experts
    gated: list[tuple[int, int]] = []
    known = op_shapes()
    for op in operators:
        if heads is None and (attention := entry_of(known.attention, op.name)):
            heads = heads_of(op, attention)
            cache = _format(op, attention.key) or cache
        if routing is None and (entry := entry_of(known.routing, op.name)):
            routing = _routing(op, entry.chosen, entry.scores)
        if (product := entry_of(known.gated, op.name)) and len(_dims(op, product.product)) == 2:
            rows, width = _dims(op, product.product)
            gated.append((rows, width))
    experts = None
    if routing is not None and hidden is not None:
        tokens, active, count = routing
        widths = [width for rows, width in gated if rows == tokens * active]
        experts = Shape(count, active, hidden, widths[0]) if widths else None
    return Model(hidden, heads, experts=experts, weights=weights, cache=cache)


def model_of_geometry(geometry: g.Geometry, tensor_ranks: int = 1) -> Model:
    """Sizes on one of `tensor_ranks` devices that share each matrix; of attention that differs, the most frequent."""
    mixers = [layer.mixer for layer in geometry.layers if isinstance(layer.mixer, g.Attention)]
    latents = [layer.mixer for layer in geometry.layers if isinstance(layer.mixer, g.Mla)]
    linears = [layer.mixer for layer in geometry.layers if isinstance(layer.mixer, g.Linear)]
    ffns = [layer.ffn for layer in geometry.layers if isinstance(layer.ffn, g.Moe)]
    heads = None
    if mixers:
        a = max(set(mixers), key=mixers.count)
        heads = Heads(a.heads_count // tensor_ranks, max(1, a.kv_heads_count // tensor_ranks), a.key_dim, a.value_dim)
    latent = replace(latents[0], heads_count=latents[0].heads_count // tensor_ranks) if latents else None
    linear = _share(linears[0], tensor_ranks) if linears else None
    experts = None
    if ffns:
        f = ffns[0]
        experts = Shape(f.experts_count, f.active_count, geometry.hidden, f.width // tensor_ranks)
    return Model(geometry.hidden, heads, latent, linear, experts, basis="geometry")


def _share(a: g.Linear, ranks: int) -> g.Linear:
    keys = max(1, a.key_heads_count // ranks)
    return replace(a, key_heads_count=keys, value_heads_count=a.value_heads_count // ranks)


def merged(told: Model | None, seen: Model) -> Model:
    """What was told of the model, and where it was told nothing what the trace shows."""
    if told is None:
        return seen
    return replace(told, hidden=told.hidden or seen.hidden, heads=told.heads or seen.heads,
                   experts=told.experts or seen.experts)  # fmt: skip


def heads_of(op: Operator, entry: Attention) -> Heads | None:
    query = _named(_dims(op, entry.query), entry.query_layout)
    key = _named(_dims(op, entry.key), entry.key_layout)
    if query is None or key is None:
        return None
    return Heads(query["H"], key["H"], query["D"], query["D"])


def queries_of(op: Operator, entry: Attention) -> dict[str, int] | None:
    """Axis → length of the queries."""
    return _named(_dims(op, entry.query), entry.query_layout)


def _named(dims: tuple[int, ...], layout: str) -> dict[str, int] | None:
    """Lengths by axis. "P" and "T" of a paged cache are taken together."""
    return dict(zip(layout, dims, strict=True)) if len(dims) == len(layout) else None


def _routing(op: Operator, chosen: int, scores: int) -> tuple[int, int, int] | None:
    first, second = _dims(op, chosen), _dims(op, scores)
    return (first[0], first[1], second[1]) if len(first) == 2 and len(second) == 2 else None


def _dims(op: Operator, at: int) -> tuple[int, ...]:
    return op.dims[at] if at < len(op.dims) else ()


def _format(op: Operator, at: int) -> Format | None:
    return FORMATS.get(op.types[at]) if at < len(op.types) else None
