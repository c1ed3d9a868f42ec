-- What a task's tokens choose beside what all tokens choose, over the whole run: who is hot for whom.
--   task VARCHAR               label; null for requests without one
--   layer BIGINT, expert BIGINT
--   start_ns BIGINT, end_ns BIGINT    first window and last sampled step with the task
--   expert_tokens BIGINT       tokens of the task that chose the expert …
--   layer_tokens BIGINT        … of so many
--   all_expert_tokens BIGINT   the same over all tasks …
--   all_layer_tokens BIGINT    … of so many; the two shares divided say how much hotter it is for this task
--   place BIGINT               1 is the task's hottest expert of the layer
CREATE OR REPLACE VIEW expert_tasks AS
WITH t AS (SELECT task, layer, expert, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
                  sum(expert_tokens)::BIGINT AS expert_tokens, sum(layer_tokens)::BIGINT AS layer_tokens
           FROM experts GROUP BY task, layer, expert)
SELECT task, layer, expert, start_ns, end_ns, expert_tokens, layer_tokens,
       (sum(expert_tokens) OVER (PARTITION BY layer, expert))::BIGINT AS all_expert_tokens,
       (sum(layer_tokens) OVER (PARTITION BY layer, expert))::BIGINT  AS all_layer_tokens,
       row_number() OVER (PARTITION BY task, layer ORDER BY expert_tokens DESC, expert) AS place
FROM t;
