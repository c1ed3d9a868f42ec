-- What a kernel took in a step on one device. Copies and fills have rows too, told apart by their kind.
--   process VARCHAR, capture VARCHAR, step BIGINT, device_index BIGINT, phase VARCHAR    as in capture_steps
--   name VARCHAR, kind VARCHAR, class VARCHAR    as in kernels
--   kernels_count BIGINT       executions
--   duration_ns BIGINT         sum of their durations
CREATE OR REPLACE VIEW kernel_step_names AS
SELECT s.process, s.capture, s.step, s.device_index, s.phase, name, kind, class, sum(count)::BIGINT AS kernels_count,
       sum(duration_ns)::BIGINT AS duration_ns
FROM kernels k JOIN capture_steps s
     ON k.process = s.process AND k.capture = s.capture AND k.step = s.step
        AND coalesce(k.device_index, -1) = coalesce(s.device_index, -1)
GROUP BY ALL;
