"""The routers of a model: how many experts each chooses from, and on which rank an expert lies.

    layers(modules, config)[0][3].placed.ranks == [0, 0, 0, 0, 1, 1, 1, 1]       two ranks, placed in order

An engine tells each rank its own experts only; how it placed the others follows from that and is checked against it.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple


class Placement(NamedTuple):
    ranks: Optional[List[int]]      # by expert; None when experts are not placed on ranks, or `fault` says why not
    spread: Optional[int]           # ranks the experts are spread over; 1: each rank has a part of all of them
    sequence_parallel: bool         # each rank of a tensor-parallel group routes tokens of its own
    fault: str                      # why the ranks cannot be told


def in_order(experts: int, count: int) -> List[int]:
    """Equal shares one after the other; the first ranks take what is left over."""
    base, over = divmod(experts, count)
    return [rank for rank in range(count) for _ in range(base + (rank < over))]


def in_turn(experts: int, count: int) -> List[int]:
    return [expert % count for expert in range(experts)]


WAYS: Tuple[Callable[[int, int], List[int]], ...] = (in_order, in_turn)


def placement(module: Any, config: Any, experts: int) -> Placement:
    moe = module.moe_config
    parallel = getattr(moe, "moe_parallel_config", moe)
    count = int(parallel.ep_size) if parallel.use_ep else 1
    sequence = bool(getattr(parallel, "is_sequence_parallel", getattr(moe, "is_sequence_parallel", False)))
    if count == 1:
        return Placement(None, 1, sequence, "")
    if getattr(config.parallel_config, "enable_eplb", False):
        return Placement(None, count, sequence, "the engine moves and copies experts between ranks")
    own = own_experts(module)
    for way in WAYS:
        ranks = way(experts, count)
        if own is not None and [e for e, rank in enumerate(ranks) if rank == int(parallel.ep_rank)] == own:
            return Placement(ranks, count, sequence, "")
    return Placement(None, count, sequence, "the experts are placed in an order that is not known")


def own_experts(module: Any) -> Optional[List[int]]:
    """Global numbers of this rank's experts; None when the engine does not say."""
    for owner in (module, getattr(module, "routed_experts", None)):
        own = getattr(owner, "expert_map", None)
        if own is not None:
            return [expert for expert, local in enumerate(own.tolist()) if local >= 0]
    return None


class Layer(NamedTuple):
    """A router, and where its experts lie."""

    number: int
    router: Any
    experts: int
    top_k: int
    placed: Placement


def layers(modules: Iterable[Any], config: Any) -> Tuple[List[Layer], List[str]]:
    """Layers with a router that shows its choices, and why others do not."""
    found: List[Layer] = []
    faults: List[str] = []
    seen = set()
    for module in modules:
        router = getattr(module, "router", None)
        if router is None or id(router) in seen or not hasattr(module, "moe_config"):
            continue
        seen.add(id(router))
        if not hasattr(router, "set_capture_fn") or not hasattr(router, "global_num_experts"):
            faults.append(f"the router {type(router).__name__} does not show its choices")
        elif bool(getattr(module, "is_monolithic", False)):
            faults.append("routing is part of a kernel that does not show its choices")
        else:
            experts = int(router.global_num_experts)
            number = int(getattr(module, "layer_id", len(found)))
            found.append(Layer(number, router, experts, int(router.top_k), placement(module, config, experts)))
    return found, faults
