-- What speculation cost and gave in each window, by the steps of requests with a draft, all tasks together.
--   drafts_count DOUBLE                                      drafts with a token
--   draft_output_tokens DOUBLE                               tokens kept in the steps of those drafts
--   draft_ns DOUBLE ÷ draft_gap_ns DOUBLE                    proposing drafts ÷ the time from step to step, both once for
--                                                            each request with a draft in it
CREATE OR REPLACE MACRO window_drafts(edges) AS TABLE
SELECT window_number,
       sum(drafted_count)::DOUBLE                               AS drafts_count,
       sum(output_tokens)::DOUBLE                               AS draft_output_tokens,
       sum(step_draft_ns)::DOUBLE                               AS draft_ns,
       sum(gap_ns) FILTER (step_draft_ns IS NOT NULL)::DOUBLE   AS draft_gap_ns
FROM window_bounds(edges) JOIN speculation ON start_ns >= from_ns AND start_ns < until_ns
WHERE position = 1
GROUP BY window_number;
