-- Drafts of a request by draft position, from its shares of steps: of a share's draft tokens the first
-- output_tokens - 1 were kept, for the last token is the model's own.
--   process VARCHAR, request BIGINT     as in requests
--   request_id VARCHAR, task VARCHAR    null while the request has not ended
--   position BIGINT                     draft position, from 1; null where no share with drafts is there
--   drafted_count BIGINT                its drafts with a token at the position
--   accepted_count BIGINT               those whose token there was kept, so all before it were
--   accepted_ratio DOUBLE               the second over the first
--   drafted_tokens BIGINT, accepted_tokens BIGINT       of all positions, as its row in requests has them
--   note VARCHAR                        why its positions are not all there; null where they are
CREATE OR REPLACE VIEW speculation_requests AS
WITH s AS (SELECT process, request, draft_tokens, greatest(output_tokens - 1, 0) AS kept,
                  sum(last_step - first_step + 1) AS drafts
           FROM step_runs WHERE draft_tokens > 0 GROUP BY ALL),
     u AS (SELECT *, unnest(range(1, draft_tokens + 1)) AS position FROM s),
     p AS (SELECT process, request, position, sum(drafts)::BIGINT AS drafted_count,
                  coalesce(sum(drafts) FILTER (position <= kept), 0)::BIGINT AS accepted_count,
                  sum(drafted_count) OVER (PARTITION BY process, request) AS seen_tokens
           FROM u GROUP BY process, request, position),
     r AS (SELECT process, request, request_id, task, drafted_tokens, accepted_tokens
           FROM requests WHERE request IS NOT NULL)
SELECT process, request, request_id, task, position, drafted_count, accepted_count,
       accepted_count / drafted_count AS accepted_ratio, drafted_tokens, accepted_tokens,
       CASE WHEN drafted_tokens > coalesce(seen_tokens, 0)
            THEN 'its shares of steps have expired, or an older recorder wrote them' END AS note
FROM p FULL JOIN r USING (process, request)
WHERE position IS NOT NULL OR drafted_tokens > 0;
