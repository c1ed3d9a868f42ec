"""Who wrote a run, and what could be seen."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, STR, Table, columns

SOURCES = Table("sources", "a process that writes rows", (
    *PROVENANCE,
    *columns("""
        role: frontend, engine_core, worker (joined with + where one process has several), endpoint, kv_events or log
        engine_version: the engine's version
        python_version: of that process
        probe_version: the probe's
        model: model name as the engine has it
        config_json: effective configuration, the part that knobs and rules read
        """, STR),
    *columns("""
        pid: process id
        context_blocks_count: KV blocks with which a request as long as it may be can run; null where unknown
        kv_cache_bytes: memory of the engine core's KV cache, on each device; null where the engine does not say
        model_weight_bytes: parameters and buffers of the model in this worker; null without speculation, or not seen
        draft_weight_bytes: those of the drafter that are not the model's; 0 where it has no model, null as above
        worker_kv_bytes: KV cache of all layers in this worker; null as above
        draft_kv_bytes: KV cache of the drafter's layers in this worker; 0 where it has none, null as above
        start_ns: probe loaded
        anchor_mono_ns: CLOCK_MONOTONIC …
        anchor_wall_ns: … and UNIX time at one moment
        lost_count: records overwritten before the recorder read them
        torn_count: records whose checksum did not match
        """),
))  # fmt: skip

FACTS = Table("facts", "whether a fact is visible in a process", (
    *columns("""
        process: role-pid
        role: frontend, engine_core or worker
        engine_version: the engine's version
        fact: name, as in the fact table
        state: visible or blind
        reason: why it is blind
        collect: how to turn it on
        """, STR),
))  # fmt: skip
