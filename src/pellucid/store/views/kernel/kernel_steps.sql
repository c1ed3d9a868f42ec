-- A step of a capture on one device: its batch, and how its time passed.
--   process VARCHAR, capture VARCHAR, step BIGINT, device_index BIGINT, phase VARCHAR, phase_basis VARCHAR,
--   graph VARCHAR, label VARCHAR
--   start_ns BIGINT, end_ns BIGINT           first and last kernel
--   took_ns BIGINT                           from one to the other
--   prefill_requests_count … decode_tokens   as in capture_steps
--   kernels_count BIGINT, kernels_ns BIGINT, busy_ns BIGINT
--   idle_ns BIGINT                           within it and before it
--   idle_before_ns BIGINT, idle_launch_ns BIGINT, idle_sync_ns BIGINT, idle_queued_ns BIGINT,
--   idle_copy_ns BIGINT, idle_nothing_ns BIGINT, idle_unknown_ns BIGINT
--   comm_exposed_ns BIGINT
--   class VARCHAR, class_ns BIGINT           the class with most time in it
CREATE OR REPLACE VIEW kernel_steps AS
WITH c AS (SELECT process, capture, step, device_index, class, sum(duration_ns)::BIGINT AS ns FROM kernels
           WHERE step IS NOT NULL AND kind IN ('kernel', 'op') GROUP BY ALL),
     m AS (SELECT process, capture, step, device_index, arg_max(class, ns) AS class, max(ns) AS class_ns
           FROM c GROUP BY ALL)
SELECT s.process, s.capture, s.step, s.device_index, phase, phase_basis, graph, label, start_ns, end_ns,
       end_ns - start_ns AS took_ns, prefill_requests_count, prefill_tokens, decode_requests_count, decode_tokens,
       kernels_count, kernels_ns, busy_ns, end_ns - start_ns - busy_ns + coalesce(idle_before_ns, 0) AS idle_ns,
       idle_before_ns, idle_launch_ns, idle_sync_ns, idle_queued_ns, idle_copy_ns, idle_nothing_ns, idle_unknown_ns,
       comm_exposed_ns, class, class_ns
FROM capture_steps s LEFT JOIN m ON s.capture = m.capture AND s.process = m.process AND s.step = m.step
       AND s.device_index IS NOT DISTINCT FROM m.device_index;
