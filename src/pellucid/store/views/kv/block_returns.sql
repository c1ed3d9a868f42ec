-- Evicted KV blocks that were cached again: how long and how many blocks too early each was evicted.
--   process, tier, block_hash VARCHAR, kv_group BIGINT, tokens BIGINT    as in kv_residency
--   removed_ns BIGINT      evicted …
--   cached_ns BIGINT       … and cached again, by the next request that wanted it
--   away_ns BIGINT         time between the two
--   stands_for_count BIGINT   as in kv_residency; 1 where it is not told
--   distance_count BIGINT  blocks taken from the free queue from the step of its eviction on until it was cached again:
--                          with so many more it would still have been there, where the longest unused block goes
--                          first. Where the steps do not say, and in other tiers: blocks evicted meanwhile, which
--                          leaves out those that held nothing findable
CREATE OR REPLACE VIEW block_returns AS
WITH lives AS (SELECT * REPLACE (coalesce(stands_for_count, 1) AS stands_for_count), lag(removed_ns) OVER same AS gone_ns, lag(removed_reason) OVER same AS gone_reason
               FROM kv_residency
               WINDOW same AS (PARTITION BY process, tier, kv_group, block_hash ORDER BY cached_ns)),
     back AS (SELECT process, tier, block_hash, kv_group, tokens, gone_ns AS removed_ns, cached_ns, stands_for_count
              FROM lives
              WHERE gone_reason = 'evicted' AND gone_ns <= cached_ns),
     gone AS (SELECT process, tier, removed_ns, stands_for_count, sum(stands_for_count) OVER (
                         PARTITION BY process, tier ORDER BY removed_ns ROWS UNBOUNDED PRECEDING)::BIGINT AS place
              FROM lives WHERE removed_reason = 'evicted'),
     taken AS (SELECT process, 'device' AS tier, start_ns, sum(kv_allocated_blocks_count) OVER run AS taken,
                      taken - kv_allocated_blocks_count AS before
               FROM steps WINDOW run AS (PARTITION BY process ORDER BY start_ns)),
     first AS (SELECT process, tier, removed_ns, min(place - stands_for_count + 1) AS place FROM gone GROUP BY ALL)
SELECT b.*, b.cached_ns - b.removed_ns AS away_ns,
       greatest(1, coalesce(t.taken - s.before, g.place - f.place + 1))::BIGINT AS distance_count
FROM back b JOIN first f USING (process, tier, removed_ns)
ASOF LEFT JOIN gone g ON b.process = g.process AND b.tier = g.tier AND b.cached_ns > g.removed_ns
ASOF LEFT JOIN taken s ON b.process = s.process AND b.tier = s.tier AND b.removed_ns >= s.start_ns
ASOF LEFT JOIN taken t ON b.process = t.process AND b.tier = t.tier AND b.cached_ns > t.start_ns;
