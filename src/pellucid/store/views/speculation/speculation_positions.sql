-- Drafts of a task by draft position, over the whole run.
--   task VARCHAR, position BIGINT       as in speculation
--   drafted_count BIGINT                drafts with a token at the position
--   accepted_count BIGINT               those whose token there was kept, so all before it were
--   accepted_ratio DOUBLE               the second over the first
CREATE OR REPLACE VIEW speculation_positions AS
SELECT task, position, sum(drafted_count)::BIGINT AS drafted_count, sum(accepted_count)::BIGINT AS accepted_count,
       sum(accepted_count) / nullif(sum(drafted_count), 0) AS accepted_ratio
FROM speculation GROUP BY task, position;
