-- What the steps of each window did, placed by their start. Sums, so that every ratio has its two parts; a sum leaves
-- out the steps in which its column is null, and so does the sum it is divided by.
--   steps_count BIGINT, busy_ns DOUBLE                       steps, and time in them
--   prefill_tokens DOUBLE ÷ prefill_seen_ns DOUBLE           prompt tokens computed first ÷ time of those steps
--   prefill_steps_count BIGINT ÷ prefill_seen_count BIGINT   steps with prompt tokens, first or again ÷ steps
--   output_tokens DOUBLE ÷ output_seen_ns DOUBLE             tokens sampled and kept ÷ time of those steps
--   recomputed_tokens DOUBLE ÷ recomputed_of_tokens DOUBLE   computed again ÷ scheduled
--   running_request_ns ÷ running_seen_ns DOUBLE              requests × time ÷ time: the mean number
--   waiting_request_ns ÷ waiting_seen_ns DOUBLE              the same of who waits; waiting_…_ by reason
--   kv_used_block_ns ÷ kv_used_of_block_ns DOUBLE            blocks × time ÷ all blocks × time
--   kv_cached_block_ns ÷ kv_cached_of_block_ns DOUBLE        the same
--   kv_allocated_blocks_count DOUBLE                         taken from the free queue
--   preempted_count DOUBLE ÷ preempted_seen_ns DOUBLE        preemptions ÷ time
--   accepted_tokens DOUBLE ÷ draft_tokens DOUBLE             draft tokens kept ÷ scheduled
--   draft_request_steps_count DOUBLE                         decodes in steps with drafts: one for a request and step
--   host_gap_ns DOUBLE ÷ host_gap_of_ns DOUBLE               time between steps ÷ that and the steps themselves
CREATE OR REPLACE MACRO window_steps(edges) AS TABLE
WITH s AS (SELECT *, (end_ns - start_ns)::DOUBLE AS step_ns FROM steps)
SELECT window_number,
       count(start_ns)                                                         AS steps_count,
       sum(step_ns)                                                            AS busy_ns,
       sum(prefill_tokens)::DOUBLE                                             AS prefill_tokens,
       sum(step_ns) FILTER (prefill_tokens IS NOT NULL)                        AS prefill_seen_ns,
       count(*) FILTER (prefill_tokens + recomputed_tokens > 0)                AS prefill_steps_count,
       count(prefill_tokens + recomputed_tokens)                               AS prefill_seen_count,
       sum(output_tokens)::DOUBLE                                              AS output_tokens,
       sum(step_ns) FILTER (output_tokens IS NOT NULL)                         AS output_seen_ns,
       sum(recomputed_tokens)::DOUBLE                                          AS recomputed_tokens,
       sum(scheduled_tokens) FILTER (recomputed_tokens IS NOT NULL)::DOUBLE    AS recomputed_of_tokens,
       sum(running_count * step_ns)                                            AS running_request_ns,
       sum(step_ns) FILTER (running_count IS NOT NULL)                         AS running_seen_ns,
       sum(waiting_count * step_ns)                                            AS waiting_request_ns,
       sum(step_ns) FILTER (waiting_count IS NOT NULL)                         AS waiting_seen_ns,
       sum(waiting_sequence_cap_count * step_ns)                               AS waiting_sequence_cap_request_ns,
       sum(step_ns) FILTER (waiting_sequence_cap_count IS NOT NULL)            AS waiting_sequence_cap_seen_ns,
       sum(waiting_token_budget_count * step_ns)                               AS waiting_token_budget_request_ns,
       sum(step_ns) FILTER (waiting_token_budget_count IS NOT NULL)            AS waiting_token_budget_seen_ns,
       sum(waiting_kv_count * step_ns)                                         AS waiting_kv_request_ns,
       sum(step_ns) FILTER (waiting_kv_count IS NOT NULL)                      AS waiting_kv_seen_ns,
       sum(waiting_deferred_count * step_ns)                                   AS waiting_deferred_request_ns,
       sum(step_ns) FILTER (waiting_deferred_count IS NOT NULL)                AS waiting_deferred_seen_ns,
       sum(kv_used_blocks_count * step_ns)                                     AS kv_used_block_ns,
       sum(kv_total_blocks_count * step_ns) FILTER (kv_used_blocks_count IS NOT NULL) AS kv_used_of_block_ns,
       sum(kv_cached_blocks_count * step_ns)                                   AS kv_cached_block_ns,
       sum(kv_total_blocks_count * step_ns) FILTER (kv_cached_blocks_count IS NOT NULL) AS kv_cached_of_block_ns,
       sum(kv_allocated_blocks_count)::DOUBLE                                  AS kv_allocated_blocks_count,
       sum(preempted_count)::DOUBLE                                            AS preempted_count,
       sum(step_ns) FILTER (preempted_count IS NOT NULL)                       AS preempted_seen_ns,
       sum(accepted_tokens)::DOUBLE                                            AS accepted_tokens,
       sum(draft_tokens) FILTER (accepted_tokens IS NOT NULL)::DOUBLE          AS draft_tokens,
       sum(decode_requests_count) FILTER (draft_tokens > 0 AND accepted_tokens IS NOT NULL)::DOUBLE AS draft_request_steps_count,
       sum(host_gap_ns)::DOUBLE                                                AS host_gap_ns,
       sum(step_ns + host_gap_ns)                                              AS host_gap_of_ns
FROM window_bounds(edges) LEFT JOIN s ON start_ns >= from_ns AND start_ns < until_ns
GROUP BY window_number;
