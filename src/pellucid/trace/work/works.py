"""Timeline, labels and places → what is known of the work of each kernel.

    found = works(scene, ceilings, told=None)          one Known for each kernel

Products from the shapes of their operators; in a device graph, where operators do not show, from the product at the
same place of a layer in a step that shows them. Experts and attention from the model and the batch; the rest from the
bytes of an operator that launched one kernel alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pellucid.physics.ceilings import Ceilings
from pellucid.physics.formats import BF16, Format
from pellucid.physics.formulae import moe, pointwise
from pellucid.physics.formulae.attention import Storage
from pellucid.physics.formulae.matmul import gemm
from pellucid.physics.geometry import Mla
from pellucid.physics.work import Work
from pellucid.trace.classify import Label
from pellucid.trace.place.lookups import find_lookups
from pellucid.trace.place.placed import Placed, is_mixer
from pellucid.trace.timeline import KERNEL, MEMCPY, Timeline
from pellucid.trace.work.attention import attention, latent_attention
from pellucid.trace.work.batches import Batch, batches
from pellucid.trace.work.known import NOTHING, Known, counted_elsewhere, of, unknown
from pellucid.trace.work.linear import linear
from pellucid.trace.work.model import Model, merged, model_of_shapes
from pellucid.trace.work.operators import Operator, operator

Product = tuple[int, int, Format, Format]          # n, k, formats of activations and weights
FINISHES = ("splitk_reduce", "epilogue", "combine", "metadata", "merge")    # details: they finish another's work
WHOLE_TENSORS = ("norm", "rope", "activation", "quant", "elementwise", "inductor_fused", "reduce", "copy", "sampling")


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A trace whose kernels have labels and places."""

    timeline: Timeline
    labels: Sequence[Label]
    placed: Placed


@dataclass(slots=True, eq=False)
class Works:
    scene: Scene
    ceilings: Ceilings | None
    model: Model
    batches: Sequence[Batch]
    operators: dict[int, Operator | None] = field(default_factory=dict)
    launched: Counter[int] = field(default_factory=Counter)                 # kernels of each operator
    products: dict[tuple[int, int], Product] = field(default_factory=dict)  # (products of a layer, place) → its sides
    places: dict[int, tuple[int, int]] = field(default_factory=dict)        # product kernel → the same

    def batch(self, row: int) -> Batch:
        step = int(self.scene.placed.step[row])
        return self.batches[step] if step >= 0 else Batch()

    def op(self, row: int) -> Operator | None:
        at = int(self.scene.timeline.kernels.op[row])
        if at not in self.operators:
            self.operators[at] = operator(self.scene.timeline, at)
        return self.operators[at]


def works(
    scene: Scene, ceilings: Ceilings | None, told: Model | None = None, by_step: Mapping[int, Batch] | None = None
) -> list[Known]:
    """`told`: what is known of the model; `by_step`: batches that a running engine told, by the numbers of steps."""
    timeline = scene.timeline
    lookups = find_lookups(timeline)
    hidden = next((lookup.hidden for lookup in lookups.told if lookup), None)
    seen_batches = batches(timeline, scene.placed, lookups)
    of_step = [(by_step or {}).get(s.step.number, b) for s, b in zip(scene.placed.steps, seen_batches, strict=True)]
    mine = Works(scene, ceilings, Model(), of_step)
    used = np.unique(timeline.kernels.op[timeline.kernels.op >= 0]).tolist()
    mine.operators = {row: operator(timeline, row) for row in used}
    seen = model_of_shapes(hidden, [op for op in dict.fromkeys(mine.operators.values()) if op is not None])
    mine.model = merged(told, seen)
    mine.launched = Counter(timeline.kernels.op[timeline.kernels.kind == KERNEL].tolist())
    _learn_products(mine)
    found = [_known(mine, row) for row in range(len(timeline.kernels))]
    return _without_orphans(scene, found)


def _without_orphans(scene: Scene, found: list[Known]) -> list[Known]:
    """A kernel that finishes another's work adds nothing to its roof; where that has none, neither has it."""
    def place(row: int) -> tuple[int, int, str]:
        return int(scene.placed.step[row]), int(scene.placed.layer[row]), scene.labels[row].category

    whole = {place(row) for row, known in enumerate(found) if known.roof_ns}
    return [NOTHING if known.roof_ns == 0 and place(row) not in whole else known for row, known in enumerate(found)]


def _known(works: Works, row: int) -> Known:
    kernels, label = works.scene.timeline.kernels, works.scene.labels[row]
    duration_ns = int(kernels.duration_ns[row])
    if kernels.kind[row] != KERNEL:
        return _copy(works, row, duration_ns)
    if any(word in label.detail for word in FINISHES):
        return counted_elsewhere(f"the {label.category} it belongs to", "shapes")
    if label.category == "gemm":
        return _gemm(works, row, duration_ns)
    if label.category == "moe_gemm":
        return _experts(works, row, duration_ns)
    if label.category == "attention" and is_mixer(label):
        return _attention(works, row, duration_ns)
    if label.category == "ssm_linear_attn":
        return _linear(works, row, duration_ns)
    if label.category == "kv_cache":
        return _kv_write(works, row, duration_ns)
    if label.category in WHOLE_TENSORS:
        return _whole_tensors(works, row, duration_ns)
    return NOTHING


def _copy(works: Works, row: int, duration_ns: int) -> Known:
    """Within the device: read and written. Across the bus the ceilings do not tell."""
    kernels = works.scene.timeline.kernels
    moved = int(kernels.copied_bytes[row])
    inside = "dtod" in works.scene.timeline.names[kernels.name[row]].lower().replace(" ", "")
    if kernels.kind[row] != MEMCPY or moved < 0 or not inside:
        return NOTHING
    return of(Work.of("bf16", 0, 2.0 * moved), works.ceilings, duration_ns, "profiler")


def _gemm(works: Works, row: int, duration_ns: int) -> Known:
    op = works.op(row)
    sides = op.matrices() if op else None
    if sides is not None:
        (m, n, k), a, b = sides
        return of(gemm(m, n, k, b, a, _output(a)), works.ceilings, duration_ns, "shapes")
    product, tokens = works.products.get(works.places.get(row, (0, -1))), works.batch(row).tokens
    if product is None or tokens is None:
        return NOTHING
    n, k, a, b = product
    return of(gemm(tokens, n, k, b, a, _output(a)), works.ceilings, duration_ns, "geometry")


def _output(activations: Format) -> Format:
    return activations if activations.element_bits >= 16 else BF16


def _learn_products(works: Works) -> None:
    """The products of each layer in order; those with shapes say what the ones at their place are."""
    scene = works.scene
    by_layer: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(scene.placed.layer >= 0).tolist():
        label = scene.labels[row]
        if label.category == "gemm" and not any(word in label.detail for word in FINISHES):
            by_layer[int(scene.placed.step[row]), int(scene.placed.layer[row])].append(row)
    told: dict[tuple[int, int], set[Product]] = defaultdict(set)
    for rows in by_layer.values():
        for place, row in enumerate(rows):
            works.places[row] = len(rows), place
            op = works.op(row)
            if op and (sides := op.matrices()):
                (_, n, k), a, b = sides
                told[len(rows), place].add((n, k, a, b))
    works.products = {at: next(iter(found)) for at, found in told.items() if len(found) == 1}


def _experts(works: Works, row: int, duration_ns: int) -> Known:
    shape, tokens = works.model.experts, works.batch(row).tokens
    if shape is None or tokens is None:
        return NOTHING
    count, place = _in_layer(works, row, "moe_gemm")
    if count > 2:
        return unknown(f"the experts' products of a layer are {count} kernels: which does what is not known")
    whole = moe.experts(shape, tokens, works.model.weights)
    first = (shape.matrices - 1) / shape.matrices
    share = 1.0 if count == 1 else first if place == 0 else 1 - first
    return of(whole.times(share), works.ceilings, duration_ns, "geometry")


def _in_layer(works: Works, row: int, category: str) -> tuple[int, int]:
    """How many kernels of a class its layer has in this step, and which of them it is."""
    placed = works.scene.placed
    step, layer = int(placed.step[row]), int(placed.layer[row])
    if layer < 0:
        return 1, 0
    near = [r for r in placed.rows[step].tolist() if placed.layer[r] == layer
            and works.scene.labels[r].category == category]  # fmt: skip
    return len(near), near.index(row)


def _attention(works: Works, row: int, duration_ns: int) -> Known:
    mixer = works.model.latent or works.model.heads
    if mixer is None:
        return NOTHING
    if _in_layer(works, row, "attention")[0] > 1 and _mixers(works, row) > 1:
        return unknown("a layer has several attention kernels: which does what is not known")
    storage, batch = Storage(cache=works.model.cache), works.batch(row)
    work = latent_attention(mixer, batch, storage) if isinstance(mixer, Mla) else attention(mixer, batch, storage)
    return unknown(work) if isinstance(work, str) else of(work, works.ceilings, duration_ns, "geometry")


def _linear(works: Works, row: int, duration_ns: int) -> Known:
    if works.model.linear is None:
        return NOTHING
    detail = works.scene.labels[row].detail
    placed = works.scene.placed
    step, layer = int(placed.step[row]), int(placed.layer[row])
    alike = sum(works.scene.labels[r].detail == detail and placed.layer[r] == layer
                for r in placed.rows[step].tolist()) if step >= 0 and layer >= 0 else 1  # fmt: skip
    if alike > 1:
        return unknown(f"a layer has {alike} such kernels: which does what is not known")
    work = linear(works.model.linear, detail, works.batch(row))
    return unknown(work) if isinstance(work, str) else of(work, works.ceilings, duration_ns, "geometry")


def _mixers(works: Works, row: int) -> int:
    placed = works.scene.placed
    step, layer = int(placed.step[row]), int(placed.layer[row])
    return sum(is_mixer(works.scene.labels[r]) for r in placed.rows[step].tolist() if placed.layer[r] == layer)


def _kv_write(works: Works, row: int, duration_ns: int) -> Known:
    heads, latent, tokens = works.model.heads, works.model.latent, works.batch(row).tokens
    elements = latent.kv_rank + latent.rope_dim if latent else heads.kv_elements if heads else None
    if elements is None or tokens is None:
        return NOTHING
    if "gather" in works.scene.timeline.names[works.scene.timeline.kernels.name[row]].lower():      # reads it
        return NOTHING
    work = pointwise.kv_write(tokens, elements, cache=works.model.cache)
    return of(work, works.ceilings, duration_ns, "geometry")


def _whole_tensors(works: Works, row: int, duration_ns: int) -> Known:
    """Every tensor of an operator once, and its result where the operator makes a new one."""
    op = works.op(row)
    if op is None or works.launched[int(works.scene.timeline.kernels.op[row])] != 1:
        return NOTHING
    moved = op.tensors_bytes()
    if not moved:
        return NOTHING
    in_place = not op.name.startswith("aten::") or op.name.endswith("_")
    if not in_place and works.scene.labels[row].category != "reduce":
        largest = max((d for d in op.dims if d), key=lambda d: int(np.prod(d)))
        moved += int(np.prod(largest)) * 2
    return of(Work.of("fp32", 0, moved), works.ceilings, duration_ns, "shapes")
