-- Evicted KV blocks by how old they were and by how long nobody had used them, in powers of two of a millisecond.
--   tier VARCHAR
--   up_to_ns BIGINT           upper end of the bucket, itself included; the next lower bucket's end is the lower one
--   evicted_count BIGINT      blocks whose age at eviction is in it
--   idle_count BIGINT         blocks whose idle time at eviction is in it
CREATE OR REPLACE VIEW kv_ages AS
WITH e AS (SELECT *, coalesce(stands_for_count, 1) AS each FROM block_lives WHERE removed_reason = 'evicted'),
     u AS (SELECT tier, age_ns AS time_ns, each AS aged, 0 AS idle FROM e
           UNION ALL SELECT tier, idle_ns, 0, each FROM e)
SELECT tier, CASE WHEN time_ns <= 0 THEN 0 ELSE (pow(2, ceil(log2(time_ns / 1e6))) * 1e6)::BIGINT END AS up_to_ns,
       sum(aged)::BIGINT AS evicted_count, sum(idle)::BIGINT AS idle_count
FROM u WHERE time_ns IS NOT NULL GROUP BY ALL;
