-- A step with decodes in it, and the time since the previous one's end: the ITL its decoding requests saw
-- if they were in both. `decode_only_ns` is what the step would have cost by the run's pure decode steps.
--   process VARCHAR, step BIGINT
--   interval_ns BIGINT              end of the previous step → end of this one; null after idleness
--   decode_requests_count BIGINT    how many requests saw it
--   other_prefill_tokens BIGINT     prompt tokens (first or again) computed in the same step
--   host_gap_ns BIGINT, schedule_ns BIGINT, update_ns BIGINT, execute_ns BIGINT
CREATE OR REPLACE VIEW step_intervals AS
SELECT process, step, start_ns, end_ns,
       CASE WHEN host_gap_ns IS NULL THEN NULL
            ELSE end_ns - lag(end_ns) OVER (PARTITION BY process ORDER BY step) END AS interval_ns,
       decode_requests_count,
       prefill_tokens + recomputed_tokens AS other_prefill_tokens,
       host_gap_ns, schedule_ns, execute_ns, update_ns
FROM steps;
