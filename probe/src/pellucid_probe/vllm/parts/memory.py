"""What a drafter holds in this worker beside the model it drafts for: weights, and the KV cache of its layers.

    weights(runner)   {"model_weight_bytes": 536870912, "draft_weight_bytes": 1638400}
    kv(runner)        {"worker_kv_bytes": 1073741824, "draft_kv_bytes": 214748364}

Read once, at the first plan: by then the engine has loaded, shared and laid out what it will. Weights are parameters
and buffers, each storage once; what the drafter shares with the model is the model's. Drafters that look tokens up hold
neither, and that is a true zero. All else that a model keeps (scratch, states, graphs) is in neither figure.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Set, Tuple

from pellucid_probe.process import Fact, Process

WEIGHTS, KV = "worker.draft_memory", "worker.draft_kv"
LOOK_UP = ("ngram", "ngram_gpu", "suffix")      # methods without a model
# Where a drafter names its layers: the newer runner's, the older's, and one of the older's that has a name of its own.
LAYERS = ("draft_attn_layer_names", "_draft_attn_layer_names", "attn_layer_names")
COLLECT = "compare the KV cache's size with and without speculation"

Bytes = Dict[str, int]


class Unseen(Exception):
    """Why something cannot be told."""


def note(process: Process, runner: Any) -> None:
    """Both facts, and in the process's configuration what was read."""
    reads: Tuple[Tuple[str, Callable[[Any], Bytes]], ...] = ((WEIGHTS, weights), (KV, kv))
    for fact, read in reads:
        try:
            process.config = {**process.config, **read(runner)}     # whole: another thread may be writing it out
            process.facts[fact] = Fact("visible")
        except Unseen as error:
            process.blind(fact, str(error), COLLECT)
        except Exception as error:      # objects of the engine may raise anything; the fact is blind, the hook goes on
            process.blind(fact, f"{type(error).__name__}: {error}", COLLECT)


def weights(runner: Any) -> Bytes:
    seen: Set[Tuple[str, int]] = set()
    model_bytes = _bytes(runner.model, seen)
    return {"model_weight_bytes": model_bytes,
            "draft_weight_bytes": 0 if _looks_up(runner) else _bytes(_drafter(runner).model, seen)}  # fmt: skip


def kv(runner: Any) -> Bytes:
    """A block belongs to one group of layers at a time, so groups lie over each other: the largest one counts."""
    config, layers = runner.kv_cache_config, runner.vllm_config.compilation_config.static_forward_context
    groups = config.kv_cache_groups
    sharing = {name for name, layer in layers.items() if getattr(layer, "kv_sharing_target_layer_name", None)}
    blocks = int(config.num_blocks)
    every = max((_page_bytes(group, set(group.layer_names) - sharing) for group in groups), default=0)
    own: Set[str] = set() if _looks_up(runner) else set(_layers(_drafter(runner))) - sharing
    holding = [group for group in groups if own & set(group.layer_names)]
    if holding and len(groups) > 1:
        raise Unseen("the KV cache's groups of layers take turns in the same memory: how much is the drafter's changes")
    return {"worker_kv_bytes": blocks * every,
            "draft_kv_bytes": blocks * sum(_page_bytes(group, own) for group in holding)}  # fmt: skip


def _looks_up(runner: Any) -> bool:
    return str(runner.speculative_config.method) in LOOK_UP


def _drafter(runner: Any) -> Any:
    drafter = getattr(runner, "speculator", None) or getattr(runner, "drafter", None)
    if drafter is None:
        raise Unseen("this worker has no drafter: another pipeline rank may have it")
    return drafter


def _layers(drafter: Any) -> "list[str]":
    for name in LAYERS:
        if hasattr(drafter, name):
            return list(getattr(drafter, name))
    raise Unseen(f"{type(drafter).__name__} does not name its attention layers")


def _page_bytes(group: Any, names: Set[str]) -> int:
    """A block of those layers of a group."""
    spec, chosen = group.kv_cache_spec, names & set(group.layer_names)
    each = getattr(spec, "kv_cache_specs", None)     # where layers differ in size
    if each is None:
        return int(spec.page_size_bytes) * len(chosen)
    return sum(int(each[name].page_size_bytes) for name in chosen)


def _bytes(model: Any, seen: Set[Tuple[str, int]]) -> int:
    """Of what is not in `seen`, which then has it."""
    total = 0
    for module in model.modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            storage = tensor.untyped_storage()
            key, size = (str(tensor.device), storage.data_ptr()), int(storage.nbytes())
            if not size and hasattr(module, "cpu_linear") and tensor is module.weight:
                key, size = ("packed", id(module)), _packed_bytes(module)
            if key not in seen:
                seen.add(key)
                total += size
    return total


def _packed_bytes(layer: Any) -> int:
    """On a CPU a linear layer's weight is packed into memory that nobody shows, and an empty one is left: by its shape,
    as it was loaded."""
    rows = getattr(layer, "output_size_per_partition", None) or layer.output_size
    columns = getattr(layer, "input_size_per_partition", None) or layer.input_size
    return int(rows) * int(columns) * int(layer.params_dtype.itemsize)
