-- What a draft token adds to a step, by engine core: from steps with and without drafts, at the same number of decodes.
-- A step's gap is its time and the host gap before it. Only decodes in it; each number of decodes weighs by how well it
-- tells the two apart. Where there are too few such steps: the slope of the gap over scheduled tokens, all steps.
--   process VARCHAR
--   basis VARCHAR                   matched, fitted, or null where neither can be had
--   draft_token_ns DOUBLE           added to the step by each draft token; null without a basis
--   draft_token_error_ns DOUBLE     its standard error
--   drafted_steps_count BIGINT      steps with drafts
--   matched_steps_count BIGINT      steps without drafts that were compared; null if there was no number of decodes with both
CREATE OR REPLACE VIEW speculation_cost AS
WITH s AS (SELECT process, decode_requests_count, scheduled_tokens, draft_tokens, draft_tokens > 0 AS drafted,
                  prefill_tokens + recomputed_tokens = 0 AS pure,
                  CASE WHEN host_gap_ns IS NULL THEN end_ns - start_ns
                       ELSE coalesce(end_ns - lag(end_ns) OVER (PARTITION BY process ORDER BY step), end_ns - start_ns)
                  END AS gap_ns
           FROM span_steps),
     n AS (SELECT process, decode_requests_count,
                  count(*) FILTER (drafted) AS d_count, count(*) FILTER (NOT drafted) AS w_count,
                  avg(gap_ns) FILTER (drafted) - avg(gap_ns) FILTER (NOT drafted) AS added_ns,
                  var_samp(gap_ns) FILTER (drafted) / d_count + var_samp(gap_ns) FILTER (NOT drafted) / w_count AS variance,
                  avg(draft_tokens) FILTER (drafted) AS drafts,
                  d_count * w_count / (d_count + w_count)::DOUBLE AS weight
           FROM s WHERE pure GROUP BY ALL HAVING d_count >= 2 AND w_count >= 2),
     m AS (SELECT process, sum(w_count)::BIGINT AS matched_steps_count,
                  sum(weight * added_ns) / sum(weight * drafts)                  AS token_ns,
                  sqrt(sum(weight * weight * variance)) / sum(weight * drafts)   AS error_ns
           FROM n GROUP BY process),
     f AS (SELECT process, count(*) FILTER (drafted) AS drafted_steps_count,
                  max(scheduled_tokens) > min(scheduled_tokens) AS told_apart,
                  regr_slope(gap_ns, scheduled_tokens) AS token_ns,
                  sqrt((1 - regr_r2(gap_ns, scheduled_tokens)) * regr_syy(gap_ns, scheduled_tokens)
                       / regr_sxx(gap_ns, scheduled_tokens) / (count(*) - 2)) AS error_ns
           FROM s GROUP BY process HAVING count(*) > 2)
SELECT process, basis, CASE basis WHEN 'matched' THEN m.token_ns WHEN 'fitted' THEN f.token_ns END AS draft_token_ns,
       CASE basis WHEN 'matched' THEN m.error_ns WHEN 'fitted' THEN f.error_ns END AS draft_token_error_ns,
       drafted_steps_count, matched_steps_count
FROM (SELECT f.*, CASE WHEN m.matched_steps_count >= 20 THEN 'matched' WHEN f.told_apart THEN 'fitted' END AS basis
      FROM f LEFT JOIN m USING (process)) f LEFT JOIN m USING (process);
