-- KV use as a metrics page told it, beside what the engine core held around the moment of the page. The page's gauge was
-- set between two steps: what the first of them held less what was freed since, or up to what the second held.
--   page_ns, dp_rank BIGINT                the page; a rank that is not told is 0
--   page_ratio DOUBLE                      as told
--   least_ratio, most_ratio DOUBLE         held, of all blocks
--   cached_ratio DOUBLE                    carrying a prefix hash, held or free
--   off_ratio DOUBLE                       how far the page is outside of least to most; 0 within
-- A page before the first step or after the last is left out.
CREATE OR REPLACE VIEW page_kv_use AS
WITH s AS (SELECT coalesce(dp_rank, 0) AS dp_rank, end_ns, kv_used_blocks_count / kv_total_blocks_count AS held,
                  kv_cached_blocks_count / kv_total_blocks_count AS cached_ratio,
                  lead(kv_used_blocks_count) OVER w / kv_total_blocks_count AS next_held,
                  lead(kv_freed_blocks_count) OVER w / kv_total_blocks_count AS freed
           FROM steps WHERE kv_total_blocks_count > 0 WINDOW w AS (PARTITION BY process ORDER BY step)),
     p AS (SELECT coalesce(dp_rank, 0) AS dp_rank, end_ns, max(value) AS page_ratio
           FROM metrics WHERE metric = 'kv_used_ratio' AND kind = 'gauge' AND end_ns IS NOT NULL GROUP BY ALL),
     j AS (SELECT p.dp_rank, p.end_ns AS page_ns, page_ratio, cached_ratio, greatest(held, next_held) AS most_ratio,
                  least(greatest(held - freed, 0), next_held) AS least_ratio
           FROM p ASOF JOIN s ON p.dp_rank = s.dp_rank AND p.end_ns >= s.end_ns
           WHERE held IS NOT NULL AND next_held IS NOT NULL)
SELECT page_ns, dp_rank, page_ratio, least_ratio, most_ratio, cached_ratio,
       greatest(least_ratio - page_ratio, page_ratio - most_ratio, 0) AS off_ratio
FROM j;
