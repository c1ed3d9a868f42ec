-- Cached KV blocks of the device whose contents were thrown out in each window, to make room.
--   evicted_blocks_count BIGINT     0 where lives of blocks are recorded and none ended so
--   evicted_age_p50_ns DOUBLE       from cached to removed, the median
--   evicted_idle_p50_ns DOUBLE      from the last use to removed, the median
CREATE OR REPLACE MACRO window_evictions(edges) AS TABLE
WITH e AS (SELECT *, coalesce(stands_for_count, 1) AS each FROM kv_residency WHERE tier = 'device' AND removed_reason = 'evicted')
SELECT window_number,
       CASE WHEN EXISTS (SELECT 1 FROM kv_residency) THEN coalesce(sum(each), 0)::BIGINT END AS evicted_blocks_count,
       quantile_cont(removed_ns - cached_ns, 0.50)                              AS evicted_age_p50_ns,
       quantile_cont(removed_ns - last_used_ns, 0.50)                           AS evicted_idle_p50_ns
FROM window_bounds(edges) LEFT JOIN e ON removed_ns >= from_ns AND removed_ns < until_ns
GROUP BY window_number;
