"""Every table and column: type, meaning. The unit is in the name (`core.units.unit_of`). This file is the truth.

Times `*_ns` that name a moment are CLOCK_MONOTONIC ns of the engine's host; `sources` has the wall anchor.
A null is "not seen", never zero: `facts` says why and how to turn it on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

I64, F64, STR = pa.int64(), pa.float64(), pa.string()


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    row: str                       # what one row is
    columns: tuple[Column, ...]
    raw: bool = False              # raw tables expire first; the others outlive them

    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


def _c(text: str, kind: pa.DataType = I64) -> tuple[Column, ...]:
    """`name: meaning` per line → columns of one type."""
    pairs = (line.strip().split(": ", 1) for line in text.strip().splitlines())
    return tuple(Column(name, kind, meaning) for name, meaning in pairs)


PROVENANCE = (
    *_c("""
        deployment: which deployment, from PELLUCID_DEPLOYMENT; "default" if it is not set
        engine: the engine's name
        process: the writing process, role-pid
        """, STR),
    *_c("dp_rank: data-parallel rank of the engine core; null where a process serves several"),
)  # fmt: skip

REQUESTS = Table("requests", "a finished, aborted or (at the end of a run) unfinished request", (
    *PROVENANCE,
    *_c("""
        request_id: external id, as the client and the response have it; not unique
        internal_id: the engine core's id
        traceparent: W3C trace context the client sent
        task: traffic class: a label the client sent, or one made from the prompt's first KV block, endpoint and format
        task_source: body (the client named it in the request), header, or automatic
        endpoint: HTTP path
        response_format: structured-output kind asked for, or text
        finish_reason: stop, length, abort, error, repetition; null while unfinished or lost
        aborted_by: client (disconnect or cancel) or engine; null unless aborted
        """, STR),
    *_c("""
        request: short number, unique within process
        client_index: which API server took it; 0 when there is one
        sent_ns: client or gateway sent it, from its X-Request-Start header, by its own clock; null without one
        arrival_ns: HTTP request seen by the frontend
        submitted_ns: handed to the engine client, before tokenisation in the engine client
        queued_ns: entered the scheduler's waiting queue
        scheduled_ns: start of the first step that computed a token of it
        first_token_ns: end of the engine step that sampled its first token
        first_delivered_ns: frontend put the first token in the response stream
        last_token_ns: end of the engine step that sampled its last token
        finish_ns: engine core freed it
        last_delivered_ns: frontend processed its last output
        first_step: first step it was in
        last_step: last step it was in
        prompt_tokens: prompt length
        cached_tokens: prompt tokens found in the prefix cache at first admission
        output_tokens: tokens sampled and kept
        scheduled_tokens: positions computed for it over all steps
        recomputed_tokens: positions computed a second time after preemption
        drafted_tokens: draft tokens scheduled for verification
        accepted_tokens: draft tokens accepted
        discarded_tokens: positions computed in a step whose result was thrown away (aborted meanwhile)
        computed_tokens: the engine's own count of computed positions when it was freed
        preemptions_count: times it was preempted
        scheduled_count: times it was admitted, first one included
        max_tokens: output limit the client asked for
        """),
))  # fmt: skip

STEPS = Table("steps", "one engine iteration that computed at least one token", (
    *PROVENANCE,
    *_c("""
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
    *_c("""
        time_basis: what device_ns or worker_ns was read from
        graph_mode: device graph used: none, piecewise, full
        """, STR),
), raw=True)  # fmt: skip

STEP_RUNS = Table("step_runs", "consecutive steps in which a request had the same share", (
    *_c("process: the engine core, as in steps", STR),
    *_c("""
        request: number, as in requests
        first_step: first step of the run
        last_step: last step, inclusive
        step_tokens: tokens computed for it in each of these steps
        first_position: position of the first token computed
        output_tokens: tokens sampled for it in each of these steps
        """),
    *_c("phase: prefill, decode, recompute, or discarded (its request was gone when the result came)", STR),
), raw=True)  # fmt: skip

REQUEST_EVENTS = Table("request_events", "something that happened to a request, in order", (
    *_c("""
        process: the engine core, as in steps
        event: queued, scheduled, preempted, rescheduled, abort_seen, finished
        """, STR),
    *_c("""
        request: number, as in requests
        time_ns: when
        step: the step in which it happened; null outside steps
        tokens: computed positions: found cached when scheduled, lost when preempted
        """),
))  # fmt: skip

HOST = Table("host", "a second of one engine process", (
    *PROVENANCE,
    *_c("""
        time_ns: end of the interval
        interval_ns: its length
        cpu_user_ns: CPU time in user mode
        cpu_system_ns: CPU time in the kernel
        rss_bytes: resident memory
        threads_count: threads
        voluntary_switches_count: waits
        involuntary_switches_count: times it lost its core
        gc_count: garbage collections
        gc_pause_ns: time in them
        gc_pause_max_ns: the longest
        probe_ns: time in our hooks, all threads
        probe_errors_count: errors in our hooks since start
        ring_dropped_count: records the ring had no room for since start
        """),
))  # fmt: skip

GPU = Table("gpu", "a sample of one device", (
    *_c("""
        deployment: as elsewhere
        device: index and product name
        throttle_reasons: what holds the clock down, joined with +; empty text for nothing
        """, STR),
    *_c("""
        time_ns: when
        interval_ns: since the previous sample
        memory_used_bytes: device memory in use
        memory_total_bytes: device memory
        sm_clock_hz: SM clock
        memory_clock_hz: memory clock
        xid_count: XID errors seen since the recorder started
        """),
    *_c("""
        utilisation_ratio: share of time with a kernel running, from NVML; 1.0 does not mean the device is full
        memory_utilisation_ratio: share of time with memory traffic
        power_watts: board power
        energy_joules: energy since the driver was loaded
        temperature_celsius: GPU temperature
        """, F64),
))  # fmt: skip

SOURCES = Table("sources", "a process that writes rows", (
    *PROVENANCE,
    *_c("""
        role: frontend, engine_core or worker (joined with + where one process has several)
        engine_version: the engine's version
        python_version: of that process
        probe_version: the probe's
        model: model name as the engine has it
        config_json: effective configuration, the part that knobs and rules read
        """, STR),
    *_c("""
        pid: process id
        start_ns: probe loaded
        anchor_mono_ns: CLOCK_MONOTONIC …
        anchor_wall_ns: … and UNIX time at one moment
        lost_count: records overwritten before the recorder read them
        torn_count: records whose checksum did not match
        """),
))  # fmt: skip

FACTS = Table("facts", "whether a fact is visible in a process", (
    *_c("""
        process: role-pid
        role: frontend, engine_core or worker
        engine_version: the engine's version
        fact: name, as in the fact table
        state: visible or blind
        reason: why it is blind
        collect: how to turn it on
        """, STR),
))  # fmt: skip

TABLES: dict[str, Table] = {
    t.name: t for t in (REQUESTS, STEPS, STEP_RUNS, REQUEST_EVENTS, HOST, GPU, SOURCES, FACTS)
}
