-- Experts in each window, all tasks together, placed by the begin of the recorder's own windows of counts. Each layer's
-- hottest expert and busiest rank are looked for, and their tokens summed over the layers.
--   routed_tokens DOUBLE                                  choices: tokens × experts that each chooses, over all layers
--   hottest_tokens DOUBLE ÷ expert_mean_tokens DOUBLE     tokens of the hottest expert ÷ of an average one
--   busiest_rank_tokens DOUBLE ÷ rank_mean_tokens DOUBLE  the same by rank; null where experts are not placed on ranks
CREATE OR REPLACE MACRO window_experts(edges) AS TABLE
WITH e AS (SELECT window_number, process, layer, expert, max(rank) AS rank, max(ranks_count) AS ranks_count,
                  sum(expert_tokens) AS tokens
           FROM window_bounds(edges) JOIN experts ON start_ns >= from_ns AND start_ns < until_ns
           GROUP BY window_number, process, layer, expert),
     l AS (SELECT window_number, process, layer, sum(tokens) AS tokens, max(tokens) AS hottest, avg(tokens) AS mean,
                  max(ranks_count) AS ranks_count
           FROM e GROUP BY window_number, process, layer),
     r AS (SELECT window_number, process, layer, max(tokens) AS busiest
           FROM (SELECT window_number, process, layer, rank, sum(tokens) AS tokens FROM e
                 WHERE rank IS NOT NULL AND ranks_count > 1 GROUP BY window_number, process, layer, rank)
           GROUP BY window_number, process, layer)
SELECT window_number,
       sum(tokens)::DOUBLE                                              AS routed_tokens,
       sum(hottest)::DOUBLE                                             AS hottest_tokens,
       sum(mean)                                                        AS expert_mean_tokens,
       sum(busiest)::DOUBLE                                             AS busiest_rank_tokens,
       sum(tokens / ranks_count) FILTER (busiest IS NOT NULL)           AS rank_mean_tokens
FROM l LEFT JOIN r USING (window_number, process, layer)
GROUP BY window_number;
