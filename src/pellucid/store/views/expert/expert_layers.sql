-- A MoE layer in a window, all tasks together: how evenly its tokens fell on the experts. Numerators, no bare ratios.
--   process VARCHAR, start_ns BIGINT, end_ns BIGINT, layer BIGINT    as in experts
--   experts_count BIGINT       experts of the layer
--   ranks_count BIGINT         ranks they are spread over; 1 where each rank has a part of every expert
--   layer_tokens BIGINT        tokens of the sampled steps
--   routed_tokens BIGINT       choices: tokens times the experts that each chooses
--   hottest_expert BIGINT      the expert that most tokens chose, the first of equals
--   hottest_tokens BIGINT      how many chose it; ÷ mean_tokens is max ÷ mean
--   mean_tokens DOUBLE         choices of an average expert
--   fair_hottest_tokens DOUBLE hottest_tokens to expect where every expert is equally likely: mean + sqrt(2 mean ln n)
--   ends_count BIGINT          experts in the two sums that follow: ten, or half of them where there are fewer than twenty
--   top_tokens BIGINT          choices of the so many hottest
--   bottom_tokens BIGINT       choices of the so many coldest; top ÷ bottom is null over nothing
--   unused_count BIGINT        experts that no token chose
CREATE OR REPLACE VIEW expert_layers AS
WITH e AS (SELECT process, start_ns, max(end_ns) AS end_ns, layer, expert, max(ranks_count) AS ranks_count,
                  sum(layer_tokens)::BIGINT AS layer_tokens, sum(expert_tokens)::BIGINT AS tokens
           FROM experts GROUP BY process, start_ns, layer, expert),
     o AS (SELECT *, count(*) OVER layer AS experts_count, least(10, count(*) OVER layer // 2) AS ends_count,
                  row_number() OVER (PARTITION BY process, start_ns, layer ORDER BY tokens DESC, expert) AS place
           FROM e WINDOW layer AS (PARTITION BY process, start_ns, layer))
SELECT process, start_ns, max(end_ns) AS end_ns, layer, count(*) AS experts_count, max(ranks_count) AS ranks_count,
       max(layer_tokens) AS layer_tokens, sum(tokens)::BIGINT AS routed_tokens,
       max(expert) FILTER (place = 1) AS hottest_expert, max(tokens) AS hottest_tokens, avg(tokens) AS mean_tokens,
       avg(tokens) + sqrt(2 * avg(tokens) * ln(count(*))) AS fair_hottest_tokens, max(ends_count) AS ends_count,
       coalesce(sum(tokens) FILTER (place <= ends_count), 0)::BIGINT AS top_tokens,
       coalesce(sum(tokens) FILTER (place > experts_count - ends_count), 0)::BIGINT AS bottom_tokens,
       count(*) FILTER (tokens = 0) AS unused_count
FROM o GROUP BY process, start_ns, layer;
