-- Prefix lookups of each window, placed by their time: what was cached once and gone when it was wanted again.
--   lookups_count BIGINT
--   evicted_tokens DOUBLE ÷ lookup_prompt_tokens DOUBLE      prompt tokens evicted before this lookup ÷ prompt tokens
CREATE OR REPLACE MACRO window_prefixes(edges) AS TABLE
SELECT window_number, count(*)                                                 AS lookups_count,
       sum(evicted_tokens)::DOUBLE                                             AS evicted_tokens,
       sum(prompt_tokens) FILTER (evicted_tokens IS NOT NULL)::DOUBLE          AS lookup_prompt_tokens
FROM window_bounds(edges) JOIN prefix_lookups ON time_ns >= from_ns AND time_ns < until_ns
GROUP BY window_number;
