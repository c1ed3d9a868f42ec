-- What steps did whose rows have expired, in one row, from their minutes; no row where none has.
--   start_ns BIGINT, end_ns BIGINT       first start, last end
--   steps_count BIGINT, busy_ns BIGINT   how many, and the time in them
--   step_mean_ns DOUBLE, step_max_ns BIGINT
--   schedule_ns, execute_ns, update_ns, host_gap_ns, idle_ns, worker_ns BIGINT   sums, as in steps
--   running_mean_count DOUBLE, running_max_count BIGINT, waiting_max_count BIGINT   the mean is over busy_ns
--   waiting_time_ratio DOUBLE, waiting_kv_time_ratio DOUBLE   share of busy_ns in which somebody waited
--   kv_used_max_ratio DOUBLE, output_tokens BIGINT, preempted_count BIGINT
CREATE OR REPLACE VIEW expired_load AS
SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns,
       sum(steps_count)::BIGINT                            AS steps_count,
       sum(busy_ns)::BIGINT                                AS busy_ns,
       sum(busy_ns) / nullif(sum(steps_count), 0)          AS step_mean_ns,
       max(step_max_ns)                                    AS step_max_ns,
       sum(schedule_ns)::BIGINT AS schedule_ns, sum(execute_ns)::BIGINT AS execute_ns,
       sum(update_ns)::BIGINT AS update_ns, sum(host_gap_ns)::BIGINT AS host_gap_ns,
       sum(idle_ns)::BIGINT AS idle_ns, sum(worker_ns)::BIGINT AS worker_ns,
       sum(running_requests_ns) / nullif(sum(busy_ns), 0)  AS running_mean_count,
       max(running_max_count)                              AS running_max_count,
       max(waiting_max_count)                              AS waiting_max_count,
       sum(waiting_ns) / nullif(sum(busy_ns), 0)           AS waiting_time_ratio,
       sum(waiting_kv_ns) / nullif(sum(busy_ns), 0)        AS waiting_kv_time_ratio,
       max(kv_used_max_blocks_count / nullif(kv_total_blocks_count, 0)) AS kv_used_max_ratio,
       sum(output_tokens)::BIGINT                          AS output_tokens,
       sum(preempted_count)::BIGINT                        AS preempted_count
FROM step_minutes
HAVING count(*) > 0;
