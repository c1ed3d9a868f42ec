-- What drafts brought a task, by engine core: the time of its steps with drafts, and an estimate of it without.
--   with     gap_ns ÷ output_tokens: what a token took in steps in which its request had a draft
--   without  estimate_ns ÷ drafts_count: the same steps without any draft, one token each
-- The estimate takes from each step what its draft tokens add (speculation_cost) and the time to propose, where it was
-- seen. Low and high are two standard errors away. A draft token is never taken to make a step shorter.
--   process VARCHAR, task VARCHAR       as in speculation
--   drafts_count BIGINT                 a request's steps with a draft
--   drafted_tokens BIGINT, accepted_tokens BIGINT
--   output_tokens BIGINT                tokens kept in those steps
--   gap_ns BIGINT                       time of those steps, once for each request with a draft
--   estimate_ns DOUBLE                  the same without drafts, and estimate_low_ns, estimate_high_ns; null without basis
--   basis VARCHAR                       as in speculation_cost
CREATE OR REPLACE VIEW speculation_gain AS
WITH t AS (SELECT process, task, sum(drafted_count) FILTER (position = 1)::BIGINT AS drafts_count,
                  sum(drafted_count)::BIGINT AS drafted_tokens, sum(accepted_count)::BIGINT AS accepted_tokens,
                  sum(output_tokens)::BIGINT AS output_tokens, sum(gap_ns)::BIGINT AS gap_ns,
                  sum(gap_ns) - coalesce(sum(step_draft_ns), 0) AS computed_ns,
                  sum(step_draft_tokens) AS step_drafts
           FROM speculation GROUP BY ALL),
     c AS (SELECT process, basis, greatest(draft_token_ns, 0)               AS token_ns,
                  greatest(draft_token_ns - 2 * draft_token_error_ns, 0)    AS token_low_ns,
                  greatest(draft_token_ns + 2 * draft_token_error_ns, 0)    AS token_high_ns
           FROM speculation_cost WHERE basis IS NOT NULL)
SELECT process, task, drafts_count, drafted_tokens, accepted_tokens, output_tokens, gap_ns,
       computed_ns - step_drafts * token_ns      AS estimate_ns,
       computed_ns - step_drafts * token_high_ns AS estimate_low_ns,
       computed_ns - step_drafts * token_low_ns  AS estimate_high_ns,
       basis
FROM t LEFT JOIN c USING (process);
