-- How far a layer's choices moved from one window to the next: total variation distance of the experts' shares, 0 for
-- the same shares and 1 for no expert in common.
--   process VARCHAR, layer BIGINT
--   start_ns BIGINT            the later window
--   previous_start_ns BIGINT   the one before
--   routed_tokens BIGINT, previous_routed_tokens BIGINT    choices in each
--   drift_ratio DOUBLE         half the sum of the shares' differences; null over an empty window
--   fair_drift_ratio DOUBLE    what chance alone makes of it, when nothing moved: sum of sqrt(p (1-p) (1/n + 1/m) / (2 pi))
CREATE OR REPLACE VIEW expert_drift AS
WITH e AS (SELECT process, start_ns, layer, expert, sum(expert_tokens) AS tokens
           FROM experts GROUP BY process, start_ns, layer, expert),
     s AS (SELECT *, sum(tokens) OVER (PARTITION BY process, start_ns, layer) AS routed_tokens FROM e),
     p AS (SELECT *, lag(start_ns) OVER w AS previous_start_ns, lag(tokens) OVER w AS previous_tokens,
                  lag(routed_tokens) OVER w AS previous_routed_tokens
           FROM s WINDOW w AS (PARTITION BY process, layer, expert ORDER BY start_ns)),
     r AS (SELECT *, tokens / nullif(routed_tokens, 0) AS share, previous_tokens / nullif(previous_routed_tokens, 0) AS before,
                  (tokens + previous_tokens) / nullif(routed_tokens + previous_routed_tokens, 0) AS joint
           FROM p WHERE previous_start_ns IS NOT NULL)
SELECT process, layer, start_ns, max(previous_start_ns) AS previous_start_ns, max(routed_tokens)::BIGINT AS routed_tokens,
       max(previous_routed_tokens)::BIGINT AS previous_routed_tokens, sum(abs(share - before)) / 2 AS drift_ratio,
       sum(sqrt(joint * (1 - joint) * (1 / routed_tokens + 1 / previous_routed_tokens) / (2 * pi()))) AS fair_drift_ratio
FROM r GROUP BY process, layer, start_ns;
