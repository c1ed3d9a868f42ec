-- Whose requests took the blocks that other requests then missed.
--   family VARCHAR, task VARCHAR              of the request that took the first missed block
--   lookups_count BIGINT                      lookups that missed a block it took
--   evicted_tokens BIGINT                     their tokens that had been evicted, by it or by others
--   own_lookups_count BIGINT                  of these lookups, those of the same family
--   evicted_age_p50_ns DOUBLE                 how long ago it took the block
--   last_ns BIGINT                            latest such lookup
CREATE OR REPLACE VIEW prefix_evictors AS
SELECT e.family, r.task, count(*) AS lookups_count, sum(l.evicted_tokens)::BIGINT AS evicted_tokens,
       count(*) FILTER (l.family = e.family) AS own_lookups_count,
       quantile_cont(l.evicted_age_ns, .5) AS evicted_age_p50_ns, max(l.time_ns) AS last_ns
FROM prefix_lookups l
LEFT JOIN prefix_lookups e ON l.process = e.process AND l.evicted_by = e.request
LEFT JOIN requests r ON l.process = r.process AND l.evicted_by = r.request
WHERE l.evicted_by IS NOT NULL
GROUP BY e.family, r.task;
