"""What must add up in every recording, as queries for the rows that break it.

    broken(open_run(folder))      →  {} or {"a step's tokens are its terms": [row, …]}

A null counts as broken: a term that is not recorded cannot add up. Positions a request was scheduled for are

    prompt − cached + output − 1 + recomputed + rejected drafts + discarded

the 1 being the last token sampled, which is never computed. Laws about whole runs hold for recordings without losses.
"""

from __future__ import annotations

from typing import Any

from pellucid.store.read import RunReader

STEP_LAWS = {
    "a step's tokens are its terms": """
        SELECT process, step, scheduled_tokens,
               prefill_tokens + decode_tokens + recomputed_tokens + draft_tokens + discarded_tokens AS terms
        FROM steps WHERE scheduled_tokens IS DISTINCT FROM terms
    """,
    "KV blocks allocated + revived - freed are the blocks held": """
        SELECT * FROM (
            SELECT process, step, kv_used_blocks_count,
                   sum(kv_allocated_blocks_count + kv_revived_blocks_count - kv_freed_blocks_count)
                   OVER (PARTITION BY process ORDER BY step) AS held_count
            FROM steps)
        WHERE kv_used_blocks_count IS DISTINCT FROM held_count
    """,
    "KV blocks held and free are all there are": """
        SELECT process, step, kv_used_blocks_count, kv_free_blocks_count, kv_total_blocks_count
        FROM steps WHERE kv_used_blocks_count + kv_free_blocks_count IS DISTINCT FROM kv_total_blocks_count
    """,
    "the requests' shares of a step are the step": """
        SELECT s.process, s.step, s.scheduled_tokens, r.tokens, s.output_tokens, r.output_tokens AS shared_outputs
        FROM steps s LEFT JOIN (
            SELECT process, step, sum(tokens) AS tokens, sum(output_tokens) AS output_tokens
            FROM step_requests GROUP BY ALL) r USING (process, step)
        WHERE s.scheduled_tokens IS DISTINCT FROM r.tokens OR s.output_tokens IS DISTINCT FROM r.output_tokens
    """,
    "a step's times are in order and add up": """
        SELECT process, step, schedule_ns, execute_ns, update_ns, end_ns - start_ns AS step_ns FROM steps
        WHERE schedule_ns + execute_ns + update_ns IS DISTINCT FROM step_ns
           OR least(schedule_ns, execute_ns, update_ns) < 0
    """,
    "a worker is through when its step is executed, or one of several before the next is": """
        SELECT * FROM (
            SELECT process, step, worker_ns, execute_ns, schedule_ns, start_ns,
                   lead(end_ns) OVER (PARTITION BY process ORDER BY step) AS next_end_ns,
                   (SELECT count(DISTINCT process) FROM sources WHERE role LIKE '%worker%') AS workers_count FROM steps)
        WHERE worker_ns > execute_ns
          AND (workers_count = 1 OR worker_ns > next_end_ns - start_ns - schedule_ns)
    """,
    "a step has one gap before it, spent with work or without": """
        SELECT process, step, host_gap_ns, idle_ns FROM steps
        WHERE (host_gap_ns IS NULL) = (idle_ns IS NULL) AND step > 1
    """,
}
REQUEST_LAWS = {
    "a prompt's tokens were found, or missed for a reason, or could not be found": """
        SELECT l.request, l.prompt_tokens, l.cached_tokens, r.cached_tokens AS request_cached_tokens,
               l.cached_tokens + evicted_tokens + salt_tokens + lora_tokens + coalesce(multimodal_tokens, 0)
               + tokenisation_tokens + skipped_tokens + never_seen_tokens + tail_tokens AS terms
        FROM prefix_lookups l LEFT JOIN requests r USING (process, request)
        WHERE l.prompt_tokens IS DISTINCT FROM terms OR l.cached_tokens IS DISTINCT FROM r.cached_tokens
           OR tail_tokens < 0
    """,
    "a finished request was scheduled for prompt, output and what was lost": """
        SELECT internal_id, scheduled_tokens,
               prompt_tokens - cached_tokens + output_tokens - 1 + recomputed_tokens
               + (drafted_tokens - accepted_tokens) + discarded_tokens AS terms
        FROM requests WHERE finish_reason IN ('stop', 'length') AND scheduled_tokens IS DISTINCT FROM terms
    """,
    # Not with drafts: the engine counts an accepted draft as computed although the output limit cut its token off.
    "the engine's own count of computed positions agrees": """
        SELECT internal_id, finish_reason, scheduled_tokens, computed_tokens - cached_tokens AS terms, output_tokens,
               last_step, last_token_ns, (SELECT max(step) FROM steps s WHERE s.process = r.process) AS newest_step
        FROM requests r WHERE finish_ns IS NOT NULL AND scheduled_ns IS NOT NULL AND preemptions_count = 0
                        AND drafted_tokens = 0 AND scheduled_tokens IS DISTINCT FROM terms
    """,
    "a request's times are in order": """
        SELECT internal_id, arrival_ns, submitted_ns, queued_ns, scheduled_ns, first_token_ns, first_delivered_ns,
               last_token_ns
        FROM requests WHERE NOT (arrival_ns <= submitted_ns AND submitted_ns <= queued_ns)
           OR queued_ns > scheduled_ns OR scheduled_ns >= first_token_ns OR first_token_ns > first_delivered_ns
           OR first_token_ns > last_token_ns
    """,
    "a request was preempted as often as it was admitted again": """
        SELECT internal_id, preemptions_count, scheduled_count FROM requests
        WHERE finish_reason IN ('stop', 'length') AND preemptions_count + 1 IS DISTINCT FROM scheduled_count
    """,
}
RUN_LAWS = {
    "steps and requests computed and produced the same": """
        SELECT * FROM (
            SELECT process, sum(scheduled_tokens) AS step_scheduled, sum(output_tokens) AS step_outputs,
                   sum(recomputed_tokens) AS step_recomputed, sum(preempted_count) AS step_preempted,
                   sum(draft_tokens) AS step_drafts FROM steps GROUP BY process) s
        JOIN (
            SELECT process, sum(scheduled_tokens) AS scheduled, sum(output_tokens) AS outputs,
                   sum(recomputed_tokens) AS recomputed, sum(preemptions_count) AS preempted,
                   sum(drafted_tokens) AS drafted FROM requests GROUP BY process) r USING (process)
        WHERE (step_scheduled, step_outputs, step_recomputed, step_preempted)
              IS DISTINCT FROM (scheduled, outputs, recomputed, preempted)
    """,
    "step numbers have no hole": """
        SELECT process, count(*) AS steps, min(step) AS first_step, max(step) AS last_step
        FROM steps GROUP BY process HAVING count(*) <> max(step) - min(step) + 1
    """,
}
LAWS = {**STEP_LAWS, **REQUEST_LAWS, **RUN_LAWS}


def broken(run: RunReader, laws: dict[str, str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Law → the first rows that break it; empty when all hold."""
    found = {}
    for law, query in (LAWS if laws is None else laws).items():
        rows = run.rows(f"SELECT * FROM ({query}) LIMIT 5")
        if rows:
            found[law] = rows
    return found
