-- An expert of a layer in a window, all tasks together.
--   process VARCHAR, start_ns BIGINT, end_ns BIGINT, layer BIGINT, expert BIGINT, rank BIGINT    as in experts
--   expert_tokens BIGINT       tokens that chose it …
--   layer_tokens BIGINT        … of so many in the sampled steps
--   mean_tokens DOUBLE         choices of an average expert of the layer
CREATE OR REPLACE VIEW expert_loads AS
SELECT process, start_ns, max(end_ns) AS end_ns, layer, expert, max(rank) AS rank,
       sum(expert_tokens)::BIGINT AS expert_tokens, sum(layer_tokens)::BIGINT AS layer_tokens,
       avg(sum(expert_tokens)) OVER (PARTITION BY process, start_ns, layer) AS mean_tokens
FROM experts GROUP BY process, start_ns, layer, expert;
