-- Prefix lookups: all, by family and by task. Sums, and the rates made of them.
--   grouped VARCHAR                all, family or task
--   family VARCHAR, task VARCHAR   of the group; null where it is not grouped by it, or has none
--   requests_count BIGINT          lookups: a request's first admission
--   hit_requests_count BIGINT      of them found something
--   prompt_tokens, cached_tokens, evicted_tokens, salt_tokens, lora_tokens, multimodal_tokens, tokenisation_tokens,
--   skipped_tokens, never_seen_tokens, tail_tokens BIGINT      as in prefix_lookups
--   possible_tokens BIGINT         cached and evicted: what an endless cache would have given
--   token_hit_ratio DOUBLE         cached_tokens over prompt_tokens
--   request_hit_ratio DOUBLE       hit_requests_count over requests_count
--   achieved_ratio DOUBLE          cached_tokens over possible_tokens; null where nothing was possible
--   evicted_age_p50_ns DOUBLE      how long ago what was missed had been evicted
--   last_ns BIGINT                 latest lookup
CREATE OR REPLACE VIEW lookup_groups AS
WITH l AS (SELECT p.*, r.task FROM prefix_lookups p LEFT JOIN requests r USING (process, request)),
     g AS (SELECT CASE grouping(family, task) WHEN 3 THEN 'all' WHEN 1 THEN 'family' ELSE 'task' END AS grouped,
                  family, task, count(*) AS requests_count, count(*) FILTER (cached_tokens > 0) AS hit_requests_count,
                  sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(cached_tokens)::BIGINT AS cached_tokens,
                  sum(evicted_tokens)::BIGINT AS evicted_tokens, sum(salt_tokens)::BIGINT AS salt_tokens,
                  sum(lora_tokens)::BIGINT AS lora_tokens, sum(multimodal_tokens)::BIGINT AS multimodal_tokens,
                  sum(tokenisation_tokens)::BIGINT AS tokenisation_tokens,
                  sum(skipped_tokens)::BIGINT AS skipped_tokens, sum(never_seen_tokens)::BIGINT AS never_seen_tokens,
                  sum(tail_tokens)::BIGINT AS tail_tokens, quantile_cont(evicted_age_ns, .5) AS evicted_age_p50_ns,
                  max(time_ns) AS last_ns
           FROM l GROUP BY GROUPING SETS ((), (family), (task)) HAVING count(*) > 0)
SELECT grouped, family, task, requests_count, hit_requests_count, prompt_tokens, cached_tokens,
       cached_tokens + evicted_tokens AS possible_tokens, evicted_tokens, salt_tokens, lora_tokens,
       multimodal_tokens, tokenisation_tokens, skipped_tokens, never_seen_tokens, tail_tokens,
       cached_tokens / nullif(prompt_tokens, 0) AS token_hit_ratio,
       hit_requests_count / requests_count AS request_hit_ratio,
       cached_tokens / nullif(possible_tokens, 0) AS achieved_ratio, evicted_age_p50_ns, last_ns
FROM g;
