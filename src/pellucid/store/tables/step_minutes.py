"""What is kept of steps whose own rows have expired."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, Table, columns
from pellucid.store.tables.steps import STEPS

STEP_MINUTES = Table("step_minutes", "a minute of one engine core, or part of it, whose steps have expired", (
    *PROVENANCE,
    *columns("""
        minute_ns: start of the minute
        start_ns: start of the first step that began in it
        end_ns: latest end of them
        steps_count: how many
        split_steps_count: of them, those whose tokens are known by phase
        busy_ns: sum of end_ns - start_ns
        step_max_ns: the longest step
        schedule_ns: sum, as are all times below
        execute_ns: from the end of schedule() to the start of update_from_output()
        update_ns: time in update_from_output()
        host_gap_ns: between steps while requests were there
        idle_ns: between steps while none was there
        worker_ns: wall time of the slowest worker
        device_ns: device time
        probe_ns: what our own hooks cost
        waiting_ns: of busy_ns, with requests left waiting
        waiting_sequence_cap_ns: because the running queue was at its cap
        waiting_token_budget_ns: because the step's token budget was spent
        waiting_kv_ns: for KV blocks
        waiting_deferred_ns: on a grammar, a LoRA slot or a KV transfer
        running_requests_ns: running_count times step time, summed: over busy_ns it is the mean
        waiting_requests_ns: the same of waiting_count
        kv_used_blocks_ns: the same of kv_used_blocks_count
        running_max_count: most requests running
        waiting_max_count: most requests waiting
        kv_used_max_blocks_count: most KV blocks used
        kv_total_blocks_count: KV blocks there were
        sequence_cap_count: highest sequence cap
        token_budget_tokens: highest token budget
        scheduled_tokens: positions computed
        prefill_tokens: prompt positions computed for the first time
        decode_tokens: output positions computed for the first time
        recomputed_tokens: positions computed again after preemption
        draft_tokens: draft positions scheduled
        accepted_tokens: draft positions accepted
        discarded_tokens: positions whose result was thrown away
        output_tokens: tokens sampled and kept
        preempted_count: preemptions
        preempted_tokens: computed positions they lost
        """),
), sums_up=STEPS.name)  # fmt: skip
