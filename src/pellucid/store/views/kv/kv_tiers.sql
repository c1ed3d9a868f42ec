-- KV blocks by tier and by what became of them: how many were of use, how old they grew, how long they lay unused.
--   tier VARCHAR, fate VARCHAR         evicted, cleared, or still there
--   blocks_count BIGINT                lives of blocks
--   found_blocks_count BIGINT          of them found at least once
--   hits_count BIGINT                  times found
--   age_p50_ns, age_p95_ns DOUBLE      cached → removed; null while there
--   idle_p50_ns, idle_p95_ns DOUBLE    last used → removed; null while there
--   returned_count BIGINT              of the evicted: cached again later
--   away_p50_ns DOUBLE                 of those: evicted → cached again
--   distance_p50_count, distance_p90_count DOUBLE   of those: so many more blocks would have kept half, nine of ten
CREATE OR REPLACE VIEW kv_tiers AS
WITH l AS (SELECT tier, coalesce(removed_reason, 'there') AS fate, sum(each)::BIGINT AS blocks_count,
                  coalesce(sum(each) FILTER (hits_count > 0), 0)::BIGINT AS found_blocks_count,
                  sum(hits_count * each)::BIGINT AS hits_count,
                  quantile_cont(age_ns, .5) AS age_p50_ns, quantile_cont(age_ns, .95) AS age_p95_ns,
                  quantile_cont(idle_ns, .5) AS idle_p50_ns, quantile_cont(idle_ns, .95) AS idle_p95_ns
           FROM (SELECT *, coalesce(stands_for_count, 1) AS each FROM block_lives) GROUP BY ALL),
     r AS (SELECT tier, 'evicted' AS fate, sum(stands_for_count)::BIGINT AS returned_count, quantile_cont(away_ns, .5) AS away_p50_ns,
                  quantile_disc(distance_count, .5)::DOUBLE AS distance_p50_count,
                  quantile_disc(distance_count, .9)::DOUBLE AS distance_p90_count
           FROM block_returns GROUP BY tier)
SELECT l.*, CASE WHEN fate = 'evicted' THEN coalesce(returned_count, 0) END AS returned_count,
       away_p50_ns, distance_p50_count, distance_p90_count
FROM l LEFT JOIN r USING (tier, fate);
