-- How the time of a phase passed on the devices of a capture. Steps of several devices count once for each.
--   capture VARCHAR, phase VARCHAR   null for kernels outside steps, and where the phase cannot be told
--   steps_count BIGINT         steps; null where the trace has none
--   kernels_count BIGINT       kernels; copies and fills do not count
--   kernels_ns BIGINT          sum of their durations
--   step_ns BIGINT             first kernel to last kernel of its steps, and what the device waited before them; null
--                              without steps
--   busy_ns BIGINT             of it with at least one kernel
--   idle_ns BIGINT             the rest
--   tokens BIGINT              tokens computed in those steps; null where not known
CREATE OR REPLACE VIEW capture_phases AS
WITH k AS (SELECT capture, phase, sum(count)::BIGINT AS kernels_count, sum(duration_ns)::BIGINT AS kernels_ns
           FROM kernels WHERE kind IN ('kernel', 'op') GROUP BY capture, phase),
     s AS (SELECT capture, phase, count(*) AS steps_count,
                  sum(end_ns - start_ns + coalesce(idle_before_ns, 0))::BIGINT AS step_ns, sum(busy_ns)::BIGINT AS busy_ns,
                  sum(prefill_tokens + decode_tokens)::BIGINT AS tokens
           FROM capture_steps GROUP BY capture, phase)
SELECT k.capture, k.phase, steps_count, kernels_count, kernels_ns, step_ns, busy_ns, step_ns - busy_ns AS idle_ns, tokens
FROM k LEFT JOIN s ON k.capture = s.capture AND k.phase IS NOT DISTINCT FROM s.phase;
