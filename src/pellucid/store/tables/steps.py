"""Steps, and the shares of requests in them."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, STR, Table, columns

STEPS = Table("steps", "one engine iteration that computed at least one token", (
    *PROVENANCE,
    *columns("""
        step: number, counted per engine core
        start_ns: schedule() entered
        end_ns: update_from_output() returned
        schedule_ns: time in schedule()
        execute_ns: from the end of schedule() to the start of update_from_output()
        update_ns: time in update_from_output()
        grammar_ns: filling the masks of structured outputs, within execute_ns, partly beside the forward pass
        host_gap_ns: from the previous step's end to this start, while requests were there; null after idleness
        idle_ns: the same span when no request was there; null otherwise
        worker_ns: wall time of the slowest worker's forward pass and sampling
        draft_ns: proposing the next step's drafts, within worker_ns, of the slowest worker; null without speculation
        encoder_ns: encoding images and sounds, within worker_ns, of the slowest worker; null without an encoder
        lora_ns: putting the batch's LoRA adapters in place, within worker_ns, of the slowest worker; null without LoRA
        device_ns: device time of the step; null where no device clock is read
        running_count: requests in the running queue after schedule()
        waiting_count: requests left waiting after schedule()
        waiting_sequence_cap_count: waiting because the running queue is at its cap
        waiting_token_budget_count: waiting because this step's token budget is spent
        waiting_kv_count: waiting because the next one's KV blocks are not free, or held back after a preemption
        waiting_deferred_count: waiting on a grammar, a LoRA slot or a KV transfer
        sequence_cap_count: most requests that may run
        token_budget_tokens: most tokens a step may compute
        scheduled_tokens: positions computed in this step
        prefill_tokens: prompt positions computed for the first time
        decode_tokens: output positions computed for the first time, drafts not counted
        recomputed_tokens: positions computed again after preemption
        draft_tokens: draft positions scheduled
        accepted_tokens: draft positions accepted
        discarded_tokens: positions of requests that were gone when the result came
        output_tokens: tokens sampled and kept
        prefill_requests_count: requests with prompt positions (first or again) in this step
        decode_requests_count: requests decoding in this step
        kv_total_blocks_count: KV blocks that can be used
        kv_used_blocks_count: held by requests after schedule()
        kv_cached_blocks_count: carrying a prefix hash, held or free
        kv_free_blocks_count: not held (their contents may still be cached)
        kv_allocated_blocks_count: taken from the free queue since the previous step
        kv_revived_blocks_count: free but cached, taken by a prefix hit since the previous step
        kv_freed_blocks_count: fell to zero references since the previous step
        preempted_count: requests preempted
        preempted_tokens: computed positions they lost
        padded_tokens: tokens of the batch shape that ran, padding included
        delivered_ns: a frontend processed this step's outputs; the latest when there are several
        probe_ns: what our own hooks cost in this step
        """),
    *columns("""
        time_basis: what device_ns or worker_ns was read from
        graph_mode: device graph used: none, piecewise, full
        """, STR),
), raw=True)  # fmt: skip

STEP_RUNS = Table("step_runs", "consecutive steps in which a request had the same share", (
    *columns("process: the engine core, as in steps", STR),
    *columns("""
        request: number, as in requests
        first_step: first step of the run
        last_step: last step, inclusive
        step_tokens: tokens computed for it in each of these steps
        first_position: position of the first token computed
        output_tokens: tokens sampled for it in each of these steps
        draft_tokens: drafted tokens among step_tokens; the first output_tokens - 1 were kept; null where not seen
        """),
    *columns("phase: prefill, decode, recompute, or discarded (its request was gone when the result came)", STR),
), raw=True)  # fmt: skip
