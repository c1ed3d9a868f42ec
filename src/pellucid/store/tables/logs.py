"""What engines wrote into their logs."""

from __future__ import annotations

from pellucid.store.column import F64, PROVENANCE, STR, Table, columns

LOG_EVENTS = Table("log_events", "a line or a traceback of an engine's log that says something we know, or a warning", (
    *PROVENANCE,
    *columns("""
        file: name of the log, without its folder
        time_basis: where the year of time_ns is from: line, or file (its last change); null without a time
        level: debug, info, warning, error, critical; null where none is printed
        kind: what it says, an entry of the catalogue; `exception` and `other` for the rest of errors and warnings
        subject: what it names: version, model, backend, kernel, exception, HTTP status
        message: its text, without prompts, token ids, paths, addresses, user names and secrets
        arguments_json: the settings it lists: numbers, switches and short names
        """, STR),
    *columns("""
        line: its first line in the file
        time_ns: when, as printed, taken as UTC; null where none is printed
        lines_count: lines it takes
        repeats_count: other processes that said the same, where the launcher folded them
        running_count: requests running
        waiting_count: requests waiting
        swapped_count: requests swapped out
        deferred_count: requests waiting on something other than room
        preempted_count: preemptions; since start or since the last such line, as the engine has it
        new_requests_count: requests that joined with this batch
        sequence_cap_count: most requests that may run
        kv_blocks_count: KV blocks
        cached_blocks_count: KV blocks a router believes to be cached
        kv_cache_tokens: tokens that fit in the KV cache
        kv_cache_bytes: memory of the KV cache
        model_length_tokens: longest sequence
        token_budget_tokens: most tokens a step may compute
        used_tokens: tokens in the KV cache now
        prompt_tokens: prompt length
        prefill_tokens: prompt tokens computed with this batch
        cached_tokens: prompt tokens found in the cache
        offload_hit_tokens: prompt tokens found in an outer tier
        load_tokens: tokens to load from there
        drafted_tokens: draft tokens; since start for speculation_total, else since the last such line
        accepted_tokens: those accepted
        duration_ns: how long it took
        compile_ns: the part of it spent compiling
        memory_bytes: what it took, or wanted
        """),
    *columns("""
        prompt_tokens_per_s: prompt tokens computed, over the engine's own interval
        output_tokens_per_s: tokens generated, over the same
        kv_usage_ratio: share of the KV cache in use
        prefix_hit_ratio: as printed: of tokens, over a window of the engine's own; its parts are not in the line
        external_prefix_hit_ratio: the same of an outer tier
        concurrency_ratio: sequences of the longest kind that fit at once
        acceptance_length_tokens: mean tokens gained by a step of speculation
        """, F64),
), raw=True)  # fmt: skip
