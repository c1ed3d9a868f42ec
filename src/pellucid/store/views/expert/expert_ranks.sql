-- A rank's part of a MoE layer's choices in a window. A layer waits for its busiest rank.
--   process VARCHAR            the worker that counted
--   start_ns BIGINT, end_ns BIGINT, layer BIGINT, rank BIGINT    as in experts; one row with a null rank where experts
--                              are not placed on ranks (ranks_count is 1) or their place is not known
--   ranks_count BIGINT         ranks the experts are spread over
--   experts_count BIGINT       experts on this rank
--   rank_tokens BIGINT         choices that fell on them
--   mean_tokens DOUBLE         the layer's choices ÷ ranks
CREATE OR REPLACE VIEW expert_ranks AS
SELECT process, start_ns, max(end_ns) AS end_ns, layer, rank, max(ranks_count) AS ranks_count,
       count(DISTINCT expert) AS experts_count, sum(expert_tokens)::BIGINT AS rank_tokens,
       sum(sum(expert_tokens)) OVER (PARTITION BY process, start_ns, layer) / max(ranks_count) AS mean_tokens
FROM experts GROUP BY process, start_ns, layer, rank;
