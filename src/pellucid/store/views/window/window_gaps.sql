-- Gaps between output tokens in each window, over all decoding requests together: every step with decodes is one gap of
-- each of them, from the end of the step before. Tokens of one step and request (speculation) are one gap.
--   gaps_count DOUBLE       gaps
--   itl_p50_ns, itl_p99_ns BIGINT    the shortest gap that so large a share of the gaps does not exceed. Gaps that differ
--                           by a thousandth or less may be taken for one, the longest of them
CREATE OR REPLACE MACRO window_gaps(edges) AS TABLE
WITH g AS (SELECT window_number, max(interval_ns) AS interval_ns, sum(decode_requests_count) AS seen_count
           FROM window_bounds(edges) JOIN step_intervals ON start_ns >= from_ns AND start_ns < until_ns
           WHERE interval_ns > 0 AND decode_requests_count > 0
           GROUP BY window_number, floor(1000 * ln(interval_ns))),
     c AS (SELECT window_number, interval_ns,
                  sum(seen_count) OVER (PARTITION BY window_number ORDER BY interval_ns) AS below_count,
                  sum(seen_count) OVER (PARTITION BY window_number)                      AS gaps_count
           FROM g)
SELECT window_number,
       any_value(gaps_count)::DOUBLE                               AS gaps_count,
       min(interval_ns) FILTER (below_count >= 0.50 * gaps_count)  AS itl_p50_ns,
       min(interval_ns) FILTER (below_count >= 0.99 * gaps_count)  AS itl_p99_ns
FROM c GROUP BY window_number;
