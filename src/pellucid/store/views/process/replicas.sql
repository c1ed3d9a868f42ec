-- What the metrics pages of one process told, over all of the time: to be compared with others that serve the same.
--   process, engine VARCHAR                as in metrics
--   model VARCHAR                          all models it names, sorted; null where it names none
--   requests_count DOUBLE                  first tokens or ended requests, whichever are more
--   ttft_mean_ns, itl_mean_ns, queue_mean_ns DOUBLE    exact means; null without a request
--   failed_count DOUBLE                    429, and the most of 5xx, failures and refusals; null where the page counts none of it
--   failed_ratio DOUBLE                    failed_count ÷ requests that ended, these included
--   kv_used_ratio DOUBLE                   mean over pages
--   prefix_hit_ratio DOUBLE                tokens found cached ÷ looked up; else the engine's own rate, mean over pages
CREATE OR REPLACE VIEW replicas AS
WITH s AS (SELECT process, max(engine) AS engine, string_agg(DISTINCT model, ', ' ORDER BY model) AS model,
                  sum(value) FILTER (metric = 'ttft_ns' AND kind = 'sum')       AS ttft_ns,
                  sum(value) FILTER (metric = 'ttft_ns' AND kind = 'count')     AS first_tokens,
                  sum(value) FILTER (metric = 'itl_ns' AND kind = 'sum')        AS itl_ns,
                  sum(value) FILTER (metric = 'itl_ns' AND kind = 'count')      AS gaps,
                  sum(value) FILTER (metric = 'queue_ns' AND kind = 'sum')      AS queue_ns,
                  sum(value) FILTER (metric = 'queue_ns' AND kind = 'count')    AS queued,
                  sum(value) FILTER (metric = 'http_responses_count')           AS answers,
                  sum(value) FILTER (metric = 'http_responses_count' AND part = '429')  AS no_room,
                  sum(value) FILTER (metric = 'http_responses_count' AND part = '5xx')  AS broken,
                  sum(value) FILTER (metric = 'failed_count')                   AS failed,
                  sum(value) FILTER (metric = 'rejected_count')                 AS rejected,
                  sum(value) FILTER (metric = 'finished_count' AND part = 'error')      AS errors,
                  sum(value) FILTER (metric = 'finished_count' AND part IS DISTINCT FROM 'error') AS finished,
                  sum(value) FILTER (metric = 'prefix_hit_tokens')              AS hit,
                  sum(value) FILTER (metric = 'prefix_queried_tokens')          AS queried,
                  avg(value) FILTER (metric = 'prefix_hit_ratio')               AS told_hit_ratio,
                  avg(value) FILTER (metric = 'kv_used_ratio')                  AS kv_used_ratio
           FROM metrics GROUP BY process),
     f AS (SELECT *, greatest(broken, failed, rejected, errors, CASE WHEN answers IS NOT NULL THEN 0 END)
                     + coalesce(no_room, 0) AS failed_count FROM s),
     e AS (SELECT *, greatest(answers, coalesce(finished, 0) + failed_count) AS ended FROM f)
SELECT process, engine, model, coalesce(greatest(first_tokens, ended, finished), 0) AS requests_count,
       ttft_ns / nullif(first_tokens, 0) AS ttft_mean_ns, itl_ns / nullif(gaps, 0) AS itl_mean_ns,
       queue_ns / nullif(queued, 0) AS queue_mean_ns, failed_count, failed_count / nullif(ended, 0) AS failed_ratio,
       kv_used_ratio, coalesce(hit / nullif(queried, 0), told_hit_ratio) AS prefix_hit_ratio
FROM e;
