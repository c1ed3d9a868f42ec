"""What the hooks read from the engine's objects, by fact: needed beside the methods they are put on.

A read is a class and the attributes of its objects; `a|b` is either. An attribute that a hook can do without, and one
whose class only shows at run time, is not here.
"""

from __future__ import annotations

from typing import NamedTuple


class Read(NamedTuple):
    module: str
    name: str           # of the class
    attributes: tuple[str, ...]


SCHEDULER = ("vllm.v1.core.sched.scheduler", "Scheduler")
SCHEDULER_CONFIG = ("vllm.config.scheduler", "SchedulerConfig")
PLAN = ("vllm.v1.core.sched.output", "SchedulerOutput")
NEW = ("vllm.v1.core.sched.output", "NewRequestData")
CACHED = ("vllm.v1.core.sched.output", "CachedRequestData")
KV = ("vllm.v1.core.kv_cache_manager", "KVCacheManager")
POOL = ("vllm.v1.core.block_pool", "BlockPool")
QUEUE = ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue")
REQUEST = ("vllm.v1.request", "Request")
OUTPUTS = ("vllm.v1.engine", "EngineCoreOutputs")
STATES = ("vllm.v1.engine.output_processor", "OutputProcessor")
FORWARD = ("vllm.forward_context", "ForwardContext")
_FUSED_MOE = "vllm.model_executor.layers.fused_moe"

RUNNER = ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner")
NEWER_RUNNER = ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner")
EXPERTS = (
    Read(f"{_FUSED_MOE}.runner.moe_runner", "MoERunner", ("router", "moe_config")),
    Read(f"{_FUSED_MOE}.router.base_router", "BaseRouter", ("set_capture_fn", "global_num_experts", "top_k")),
)

READS: dict[str, tuple[Read, ...]] = {
    "request.identity": (Read("vllm.v1.engine", "EngineCoreRequest", ("request_id",)),),
    "request.finish_reason": (Read("vllm.v1.engine.output_processor", "RequestState", ("request_id",)),),
    "request.client_abort": (Read(*STATES, ("request_states", "external_req_ids")),),
    "core.config": (Read("vllm.config", "VllmConfig", ("parallel_config",)),),
    "request.queued": (
        Read(*REQUEST, ("request_id", "client_index", "num_prompt_tokens", "max_tokens", "sampling_params")),
    ),
    "request.sampling": (Read("vllm.sampling_params", "SamplingParams", ("temperature", "top_p", "top_k", "seed")),),
    "request.external_id": (Read("vllm.v1.engine", "EngineCoreRequest", ("external_req_id",)),),
    "request.preempted": (Read(*REQUEST, ("request_id", "num_computed_tokens")),),
    "request.freed": (
        Read(*REQUEST, ("request_id", "num_output_tokens", "num_computed_tokens", "num_preemptions", "status")),
    ),
    "step.times": (
        Read(*SCHEDULER, ("requests",)), Read(*PLAN, ("total_num_scheduled_tokens",)), Read(*OUTPUTS, ("outputs",)),
    ),
    "step.composition": (
        Read(*PLAN, ("num_scheduled_tokens", "scheduled_new_reqs", "scheduled_cached_reqs", "finished_req_ids",
                     "scheduled_spec_decode_tokens")),
        Read(*NEW, ("req_id", "num_computed_tokens")),
        Read(*CACHED, ("req_ids", "num_computed_tokens", "resumed_req_ids")),
        Read("vllm.v1.engine", "EngineCoreOutput", ("request_id", "new_token_ids")),
    ),
    "step.waiting_reason": (Read(*SCHEDULER, ("get_request_counts", "deferred_waiting|skipped_waiting")),),
    "step.limits": (Read(*SCHEDULER, ("max_num_scheduled_tokens", "max_num_active_reqs|max_num_running_reqs")),),
    "kv.blocks": (
        Read(*SCHEDULER, ("kv_cache_manager",)), Read(*KV, ("block_pool",)),
        Read(*POOL, ("free_block_queue", "cached_block_hash_to_block", "num_gpu_blocks")),
        Read(*QUEUE, ("num_free_blocks",)),
    ),
    "kv.flow": (Read(*POOL, ("free_block_queue",)), Read(*QUEUE, ("num_free_blocks",))),
    "kv.lives": (
        Read(*KV, ("get_blocks",)), Read("vllm.v1.core.kv_cache_manager", "KVCacheBlocks", ("blocks",)),
        Read("vllm.v1.core.kv_cache_utils", "KVCacheBlock", ("block_id",)),
        Read(*REQUEST, ("block_hashes", "prompt_token_ids")), Read(*NEW, ("block_ids",)),
        Read(*CACHED, ("new_block_ids",)),
    ),
    "kv.multimodal": (
        Read(*REQUEST, ("mm_features",)),
        Read("vllm.multimodal.inputs", "MultiModalFeatureSpec", ("identifier", "mm_position")),
        Read("vllm.multimodal.inputs", "PlaceholderRange", ("offset",)),
    ),
    "worker.times": (Read("vllm.v1.worker.worker_base", "WorkerWrapperBase", ("worker",)),),
    "worker.graph_mode": (Read(*FORWARD, ("cudagraph_runtime_mode",)),),
    "worker.padded_tokens": (
        Read(*FORWARD, ("batch_descriptor",)), Read("vllm.forward_context", "BatchDescriptor", ("num_tokens",)),
    ),
    "worker.draft_time": (
        Read(*RUNNER, ("speculative_config",)), Read(*NEWER_RUNNER, ("speculative_config", "speculator")),
    ),
    "worker.encoder_time": (
        Read(*RUNNER, ("supports_mm_inputs",)),
        Read(*NEWER_RUNNER, ("supports_mm_inputs", "encoder_cache", "model_state")),
        Read("vllm.v1.worker.gpu.model_states.default", "DefaultModelState", ("encoder_runner",)),
    ),
    "worker.lora_time": (
        Read(*RUNNER, ("lora_config", "lora_manager", "input_batch")),
        Read(*NEWER_RUNNER, ("lora_config", "lora_manager", "lora_state")),
    ),
    "control.sequence_cap": (
        Read(*SCHEDULER, ("max_num_active_reqs", "max_num_running_reqs")),
        Read(*SCHEDULER_CONFIG, ("max_num_active_seqs",)),
    ),
    "control.scheduled_token_budget": (
        Read(*SCHEDULER, ("max_num_scheduled_tokens", "num_spec_tokens", "scheduler_config")),
        Read(*SCHEDULER_CONFIG, ("max_num_batched_tokens", "enable_chunked_prefill")),
    ),
    "control.long_prefill_threshold": (
        Read(*SCHEDULER, ("num_spec_tokens", "scheduler_config", "max_model_len")),
        Read(*SCHEDULER_CONFIG, ("long_prefill_token_threshold", "enable_chunked_prefill")),
    ),
    "control.long_prefill_adaptive": (
        Read(*SCHEDULER, ("adaptive_long_prefill_threshold",)),
        Read(*SCHEDULER_CONFIG, ("long_prefill_token_threshold_adaptive",)),
    ),
    "control.admission_watermark": (
        Read(*SCHEDULER, ("kv_cache_manager",)), Read(*KV, ("watermark_blocks", "block_pool")),
        Read(*POOL, ("num_gpu_blocks",)),
    ),
    "control.reserve_full_prompt": (Read(*SCHEDULER, ("scheduler_reserve_full_isl",)),),
    "control.draft_table": (Read(*SCHEDULER, ("dynamic_sd_lookup",)),),
    "control.no_drafts_for_tasks": (
        Read(*SCHEDULER, ("num_spec_tokens", "running")), Read(*REQUEST, ("spec_token_ids", "sampling_params")),
    ),
    "control.queued_requests_cap": (Read(*SCHEDULER_CONFIG, ("max_num_queued_reqs",)),),
    "control.queued_tokens_cap": (Read(*SCHEDULER_CONFIG, ("max_num_queued_tokens",)),),
    **dict.fromkeys(("worker.experts", "worker.experts_by_task", "worker.expert_ranks"), EXPERTS),
}  # fmt: skip
