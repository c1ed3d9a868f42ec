-- What drafts brought a task over the whole run, all engine cores together, and what that rests on.
--   task VARCHAR                              as in speculation; null: all tasks beyond the 64 of a window
--   drafts_count BIGINT, drafted_tokens BIGINT, accepted_tokens BIGINT, output_tokens BIGINT   as in speculation_gain
--   accepted_ratio DOUBLE                     accepted over drafted tokens, of all positions
--   position_accepted_ratios DOUBLE[]         the same at position 1, 2, …, to two digits
--   token_ns DOUBLE                           what a token took in steps with a draft
--   without_ns DOUBLE                         the same without drafts, by estimate; and without_low_ns, without_high_ns
--   speedup_ratio DOUBLE                      without_ns over token_ns: above one bought, below one lost
--   speedup_low_ratio DOUBLE, speedup_high_ratio DOUBLE    by the ends of the estimate
--   basis VARCHAR                             matched or fitted, as in speculation_cost; null without an estimate
--   drafted_steps_count BIGINT, matched_steps_count BIGINT as in speculation_cost: steps that the estimate is from
--   speedup_note VARCHAR                      why there is no estimate; null where there is one
--   draft_ns BIGINT ÷ draft_gap_ns BIGINT     proposing drafts ÷ those steps' time, where the first was seen
--   draft_time_ratio DOUBLE                   the one over the other
--   time_note VARCHAR                         why it is null; null where it is not
--   draft_bytes BIGINT ÷ held_bytes BIGINT, draft_memory_ratio DOUBLE, memory_note VARCHAR   of all workers, as in
--                                             drafter_memory; the same for all tasks
CREATE OR REPLACE VIEW speculation_tasks AS
WITH g AS (SELECT task, sum(drafts_count)::BIGINT AS drafts_count, sum(drafted_tokens)::BIGINT AS drafted_tokens,
                  sum(accepted_tokens)::BIGINT AS accepted_tokens, sum(output_tokens)::BIGINT AS output_tokens,
                  sum(gap_ns) / nullif(sum(output_tokens), 0) AS token_ns, bool_and(estimate_ns IS NOT NULL) AS told,
                  sum(estimate_ns) / sum(drafts_count) AS mean_ns, sum(estimate_low_ns) / sum(drafts_count) AS low_ns,
                  sum(estimate_high_ns) / sum(drafts_count) AS high_ns,
                  string_agg(DISTINCT basis, ', ' ORDER BY basis) AS bases
           FROM speculation_gain GROUP BY task),
     c AS (SELECT sum(drafted_steps_count)::BIGINT AS drafted_steps_count,
                  sum(matched_steps_count)::BIGINT AS matched_steps_count FROM speculation_cost),
     p AS (SELECT task, list(round(accepted_ratio, 2) ORDER BY position) AS position_accepted_ratios
           FROM speculation_positions GROUP BY task),
     t AS (SELECT task, sum(step_draft_ns)::BIGINT AS draft_ns,
                  sum(gap_ns) FILTER (step_draft_ns IS NOT NULL)::BIGINT AS draft_gap_ns
           FROM speculation GROUP BY task),
     n AS (SELECT coalesce(any_value(reason) FILTER (fact = 'worker.draft_time' AND state = 'blind'),
                           'no worker said how long it proposed') AS why FROM facts),
     m AS (SELECT CASE WHEN bool_and(memory_note IS NULL) THEN sum(draft_bytes)::BIGINT END AS draft_bytes,
                  CASE WHEN bool_and(memory_note IS NULL) THEN sum(held_bytes)::BIGINT END AS held_bytes,
                  CASE WHEN count(*) = 0 THEN 'no worker weighed its drafter'
                       ELSE string_agg(DISTINCT memory_note, '; ' ORDER BY memory_note) END AS memory_note
           FROM drafter_memory)
SELECT g.task, drafts_count, drafted_tokens, accepted_tokens, output_tokens,
       accepted_tokens / nullif(drafted_tokens, 0) AS accepted_ratio, position_accepted_ratios, token_ns,
       CASE WHEN told THEN mean_ns END AS without_ns, CASE WHEN told THEN greatest(low_ns, 0) END AS without_low_ns,
       CASE WHEN told THEN high_ns END AS without_high_ns, without_ns / token_ns AS speedup_ratio,
       without_low_ns / token_ns AS speedup_low_ratio, without_high_ns / token_ns AS speedup_high_ratio,
       CASE WHEN told THEN bases END AS basis, drafted_steps_count, matched_steps_count,
       CASE WHEN NOT told THEN 'no steps without drafts to compare with, and no line through step time over tokens'
            END AS speedup_note,
       draft_ns, draft_gap_ns, draft_ns / nullif(draft_gap_ns, 0) AS draft_time_ratio,
       CASE WHEN draft_ns IS NULL THEN why END AS time_note,
       draft_bytes, held_bytes, draft_bytes / nullif(held_bytes, 0) AS draft_memory_ratio, memory_note
FROM g JOIN p ON p.task IS NOT DISTINCT FROM g.task JOIN t ON t.task IS NOT DISTINCT FROM g.task, c, n, m;
