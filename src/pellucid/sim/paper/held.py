"""What one GPU of a placement holds: weights, and KV of a token and of a request. The fullest stage counts.

    weights_on(geometry, Way(Placement(tp=8), domain=8))             == 2_040_…      bytes on one GPU
    kv_on(geometry, way)    KvHeld(token_bytes=16_384, block_bytes=262_144, copies_ratio=1.0, …)

KV heads fewer than ranks are copied, and a latent vector (MLA) lies on every rank of tp.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from pellucid.physics.cache import CacheFormat, held_tokens, layer_bytes_per_token, mixer_state_bytes
from pellucid.physics.geometry import Attention, Geometry, Layer, Linear
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Plan
from pellucid.physics.step.matrices import cut
from pellucid.physics.tensors import Tensor, tensors
from pellucid.sim.paper.placement import Way, expert_cut, stages

# Engines fill the smaller kind of layer up, where the larger has fewer than so many times its layers.
NEARLY_ALIKE = 1.5


@dataclass(frozen=True, slots=True)
class KvHeld:
    """On one GPU of the stage with the most KV."""

    token_bytes: float             # while no window is full
    block_bytes: float             # of a block of all layers that share one
    page_tokens: int
    state_bytes: float             # of a request, however long
    copies_ratio: float            # stored on all GPUs of a replica ÷ what the model has


def weights_on(geometry: Geometry, way: Way, mtp: bool = False) -> float:
    """Bytes of the fullest GPU, in the checkpoint's formats with their scales. MTP heads where asked for."""
    return max(stage_weights(geometry, way, mtp))


@lru_cache(maxsize=512)
def stage_weights(geometry: Geometry, way: Way, mtp: bool = False) -> tuple[float, ...]:
    """Of one GPU of each stage. The first has the embedding, the last the output matrix, and MTP heads where asked."""
    pp, plan, found = way.placement.pp, way.plan, list[float]()
    sizes = [len(stage.layers) for stage in stages(geometry, pp)]
    ends = [sum(sizes[: index + 1]) for index in range(pp)]
    for index in range(pp):
        first, last, end = index == 0, index == pp - 1, ends[index]
        mine = 0.0
        for tensor in tensors(geometry):
            if tensor.part == "mtp":
                inside = mtp and last
            elif tensor.layer is not None:
                inside = end - sizes[index] <= tensor.layer < end
            else:
                inside = (first and tensor.part == "embedding") or (last and tensor.part != "embedding")
                # A tied table is on both ends: it is looked up on one and multiplied on the other.
                mine += tensor_on(geometry, tensor, plan) if _tied_again(geometry, tensor, last and not first) else 0
            mine += tensor_on(geometry, tensor, plan) if inside else 0
        found.append(mine)
    return tuple(found)


def _tied_again(geometry: Geometry, tensor: Tensor, last_of_many: bool) -> bool:
    return last_of_many and geometry.tied and tensor.part == "embedding"


def tensor_on(geometry: Geometry, tensor: Tensor, plan: Plan) -> float:
    """Bytes that one rank has of a tensor."""
    fmt, copies = stored_format(geometry, tensor), tensor.copies
    if tensor.split == "copies":
        rows, columns = expert_cut(tensor, plan)
        copies = copies // plan.ep
    elif not tensor.product and tensor.split in ("rows", "columns"):
        return fmt.stored_bytes(tensor.rows, tensor.columns) * copies / plan.tp     # vectors
    else:
        rows, columns = cut(tensor, plan)
    return fmt.stored_bytes(rows, columns) * copies


def ranks_layer(layer: Layer, plan: Plan) -> Layer:
    """The layer as one rank's cache sees it."""
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return replace(layer, mixer=replace(mixer, kv_heads_count=plan.kv_heads(mixer.kv_heads_count)))
    return layer


def layer_token_bytes(layer: Layer, way: Way) -> float:
    return layer_bytes_per_token(ranks_layer(layer, way.plan), way.cache)


def kv_on(geometry: Geometry, way: Way, page_tokens: int) -> KvHeld:
    fullest = max(stages(geometry, way.placement.pp), key=lambda s: sum(layer_token_bytes(x, way) for x in s.layers))
    token = sum(layer_token_bytes(layer, way) for layer in fullest.layers)
    states = sum(_state_bytes(layer, way.cache, way.plan) for layer in fullest.layers)
    stored = sum(layer_token_bytes(layer, way) for layer in geometry.layers) * way.placement.tp
    own = sum(layer_bytes_per_token(layer, way.cache) for layer in geometry.layers)
    return KvHeld(token, _block_bytes(fullest, way, page_tokens), page_tokens, states, stored / own if own else 1.0)


def request_on(geometry: Geometry, way: Way, context_tokens: int, page_tokens: int) -> float:
    """KV and states of one request on the GPU of the fullest stage, in whole pages."""
    found = []
    for stage in stages(geometry, way.placement.pp):
        kv = sum(layer_token_bytes(layer, way) * _paged(held_tokens(layer, context_tokens), page_tokens)
                 for layer in stage.layers)  # fmt: skip
        found.append(kv + sum(_state_bytes(layer, way.cache, way.plan) for layer in stage.layers))
    return max(found)


def _paged(tokens: int, page_tokens: int) -> int:
    return -(-tokens // page_tokens) * page_tokens


def _state_bytes(layer: Layer, fmt: CacheFormat, plan: Plan) -> float:
    return mixer_state_bytes(layer.mixer, fmt) / plan.tp if isinstance(layer.mixer, Linear) else 0.0


def _block_bytes(stage: Geometry, way: Way, page_tokens: int) -> float:
    """Layers with and without a window lie in groups of one size, over each other: a block belongs to one group at a
    time. The group is as large as the smaller kind, or as the larger where it is nearly alike."""
    paged = [layer for layer in stage.layers if not isinstance(layer.mixer, Linear)]
    if not paged:
        return 0.0
    kinds = Counter(layer.mixer.window_tokens if isinstance(layer.mixer, Attention) else None for layer in paged)
    fewest, most = min(kinds.values()), max(kinds.values())
    group = most if most < fewest * NEARLY_ALIKE else fewest
    each = max(layer_token_bytes(layer, way) for layer in paged)
    whole = sum(layer_token_bytes(layer, way) for layer in paged)
    return (whole if len(kinds) == 1 else group * each) * page_tokens
