"""KV blocks and prefixes."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, STR, Table, columns

KV_RESIDENCY = Table("kv_residency", "the life of a cached KV block in a tier: from cached to removed", (
    *PROVENANCE,
    *columns("""
        block_hash: keyed hash of its tokens and all before them
        tier: where it lies: device, cpu, disk, or the name the engine gives
        removed_reason: evicted (its block was taken for new contents), cleared, or unknown; null while it is there
        """, STR),
    *columns("""
        kv_group: KV cache group, for models with several
        request: number of the request that computed it; null where events do not say
        cached_ns: its contents became findable; null if that was before the recording
        last_used_ns: last hit, or the time it was cached
        freed_ns: last fell to zero references; null while held, or where events do not say
        removed_ns: no longer findable; null while it is there, or when removed_reason is unknown
        removed_by: number of the request whose allocation took the block; null if unknown
        hits_count: times a request found it
        stands_for_count: lives this one stands for: where there are very many, those of one hash in 2, 4, … are written
        tokens: tokens in the block
        """),
), raw=True)  # fmt: skip

KV_ONBOARDS = Table("kv_onboards", "a KV block that was brought back from an outer tier", (
    *PROVENANCE,
    *columns("""
        block_hash: keyed hash of its tokens and all before them, as in kv_residency
        tier: where it came from: cpu
        """, STR),
    *columns("""
        kv_group: KV cache group, for models with several
        time_ns: when the engine decided it
        request: number of the request that gets it
        age_ns: since it was written to the tier; null if that was before the recording
        idle_ns: since it was last brought back, or written; null if that was before the recording
        stands_for_count: as in kv_residency
        """),
), raw=True)  # fmt: skip

PREFIX_LOOKUPS = Table("prefix_lookups", "a request's first admission: what was found cached, and why not all", (
    *PROVENANCE,
    *columns("""
        family: keyed hash of the first block of its tokens, salt and LoRA left out; null for a prompt below one block
        miss_reason: of the first block not found: never_seen, evicted, salt, lora, tokenisation, skipped; null if none
        """, STR),
    *columns("""
        request: number, as in requests
        time_ns: start of the step that admitted it
        prompt_tokens: prompt length
        cached_tokens: found in the cache, as in requests
        evicted_tokens: were cached once, and removed before this lookup
        salt_tokens: the same tokens were computed under another cache salt
        lora_tokens: the same tokens were computed under another LoRA adapter
        tokenisation_tokens: computed before behind other leading tokens (template, date, id): only their past differs
        skipped_tokens: the engine does not look for this kind of request (prompt log-probabilities)
        never_seen_tokens: whole blocks nobody computed before
        tail_tokens: behind the last whole block that may be found: no cache can give them
        evicted_age_ns: how long ago the first evicted block was removed; null if none was, or unknown
        evicted_by: number of the request whose allocation took it
        follows: number of the request whose prompt and answer it begins with, by whole blocks; null if none was seen
        """),
))  # fmt: skip
