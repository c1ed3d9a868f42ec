-- What metrics pages told in each window, placed by their time: for rows whose facts nobody saw. Gauges are means over
-- pages, of all processes together; counters and histograms are increases. A percentile is the upper bound of the bucket
-- it lies in, null in the last bucket, which has none.
--   pages_count BIGINT, page_ns DOUBLE                         pages, and the time between the first and the last
--   page_running_mean_count, page_waiting_mean_count, page_kv_used_ratio DOUBLE
--   page_output_tokens, page_preempted_count DOUBLE            increases
--   page_prefix_hit_tokens ÷ page_prefix_queried_tokens DOUBLE found cached ÷ looked up
--   page_accepted_tokens ÷ page_drafted_tokens DOUBLE          draft tokens kept ÷ proposed
--   page_draft_rounds_count DOUBLE                             times a request was drafted for
--   page_ttft_p50_ns, page_ttft_p95_ns, page_itl_p50_ns, page_itl_p99_ns DOUBLE, page_ttft_count, page_itl_count DOUBLE
--   page_evicted_age_p50_ns, page_evicted_idle_p50_ns, page_evicted_count DOUBLE    of the blocks the engine samples
--   page_device_utilisation_ratio, page_device_power_watts DOUBLE       means of a device
--   page_device_memory_used_bytes ÷ page_device_memory_of_bytes DOUBLE  sums over devices and pages
--   page_device_temperature_celsius DOUBLE                     the highest
--   page_device_energy_joules DOUBLE                           increase, all devices
CREATE OR REPLACE MACRO window_pages(edges) AS TABLE
WITH m AS (SELECT window_number, metrics.* FROM window_bounds(edges) JOIN metrics
                ON end_ns >= from_ns AND end_ns < until_ns),
     g AS (SELECT window_number, end_ns,
                  sum(value) FILTER (metric = 'running_count')             AS running,
                  sum(value) FILTER (metric = 'waiting_count')             AS waiting,
                  avg(value) FILTER (metric = 'kv_used_ratio')             AS kv_used,
                  avg(value) FILTER (metric = 'gpu_busy_ratio')            AS busy,
                  avg(value) FILTER (metric = 'gpu_power_watts')           AS watts,
                  max(value) FILTER (metric = 'gpu_temperature_celsius')   AS celsius,
                  sum(value) FILTER (metric = 'gpu_memory_used_bytes')     AS used_bytes,
                  sum(value) FILTER (metric IN ('gpu_memory_used_bytes', 'gpu_memory_free_bytes',
                                                'gpu_memory_reserved_bytes')) AS of_bytes
           FROM m WHERE kind = 'gauge' GROUP BY window_number, end_ns),
     p AS (SELECT window_number, count(*) AS pages_count, avg(running) AS page_running_mean_count,
                  avg(waiting) AS page_waiting_mean_count, avg(kv_used) AS page_kv_used_ratio,
                  avg(busy) AS page_device_utilisation_ratio, avg(watts) AS page_device_power_watts,
                  max(celsius) AS page_device_temperature_celsius, sum(used_bytes) AS page_device_memory_used_bytes,
                  sum(of_bytes) FILTER (used_bytes IS NOT NULL) AS page_device_memory_of_bytes
           FROM g GROUP BY window_number),
     t AS (SELECT window_number, max(covered_ns)::DOUBLE AS page_ns
           FROM (SELECT window_number, process, sum(end_ns - start_ns) AS covered_ns
                 FROM (SELECT DISTINCT window_number, process, start_ns, end_ns FROM m)
                 GROUP BY window_number, process)
           GROUP BY window_number),
     c AS (SELECT window_number,
                  sum(value) FILTER (metric = 'output_tokens')             AS page_output_tokens,
                  sum(value) FILTER (metric = 'preempted_count')           AS page_preempted_count,
                  sum(value) FILTER (metric = 'prefix_hit_tokens')         AS page_prefix_hit_tokens,
                  sum(value) FILTER (metric = 'prefix_queried_tokens')     AS page_prefix_queried_tokens,
                  sum(value) FILTER (metric = 'accepted_tokens')           AS page_accepted_tokens,
                  sum(value) FILTER (metric = 'drafted_tokens')            AS page_drafted_tokens,
                  sum(value) FILTER (metric = 'draft_rounds_count')        AS page_draft_rounds_count,
                  sum(value) FILTER (metric = 'gpu_energy_joules')         AS page_device_energy_joules
           FROM m WHERE kind = 'counter' GROUP BY window_number),
     n AS (SELECT window_number, metric, sum(value) AS taken FROM m WHERE kind = 'count' GROUP BY window_number, metric),
     b AS (SELECT window_number, metric, le, sum(value) AS below FROM m WHERE kind = 'bucket'
           GROUP BY window_number, metric, le),
     q AS (SELECT window_number, metric, any_value(taken) AS taken,
                  min(le) FILTER (below >= 0.50 * taken) AS p50, min(le) FILTER (below >= 0.95 * taken) AS p95,
                  min(le) FILTER (below >= 0.99 * taken) AS p99
           FROM b JOIN n USING (window_number, metric) WHERE taken > 0 AND isfinite(le) GROUP BY window_number, metric),
     h AS (SELECT window_number,
                  any_value(taken) FILTER (metric = 'ttft_ns')               AS page_ttft_count,
                  any_value(p50) FILTER (metric = 'ttft_ns')                 AS page_ttft_p50_ns,
                  any_value(p95) FILTER (metric = 'ttft_ns')                 AS page_ttft_p95_ns,
                  any_value(taken) FILTER (metric = 'itl_ns')                AS page_itl_count,
                  any_value(p50) FILTER (metric = 'itl_ns')                  AS page_itl_p50_ns,
                  any_value(p99) FILTER (metric = 'itl_ns')                  AS page_itl_p99_ns,
                  any_value(taken) FILTER (metric = 'kv_block_lifetime_ns')  AS page_evicted_count,
                  any_value(p50) FILTER (metric = 'kv_block_lifetime_ns')    AS page_evicted_age_p50_ns,
                  any_value(p50) FILTER (metric = 'kv_block_idle_ns')        AS page_evicted_idle_p50_ns
           FROM q GROUP BY window_number)
SELECT * FROM p LEFT JOIN t USING (window_number) LEFT JOIN c USING (window_number) LEFT JOIN h USING (window_number);
