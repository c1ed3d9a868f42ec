-- Where all prompt tokens came from, and why the rest was not found in the cache.
--   reason VARCHAR             cached, evicted, salt, lora, multimodal, tokenisation, skipped, never_seen or tail, as in
--                              prefix_lookups; no row of multimodal where nobody looked for it
--   tokens BIGINT              prompt tokens of that kind
--   prompt_tokens BIGINT       all of them: the denominator
--   token_ratio DOUBLE         tokens over prompt_tokens
--   requests_count BIGINT      requests with such tokens
--   first_miss_count BIGINT    requests whose first block not found was missed for it; null for cached and tail
--   last_ns BIGINT             latest lookup with such tokens
CREATE OR REPLACE VIEW prefix_reasons AS
WITH u AS (UNPIVOT (SELECT time_ns, miss_reason, prompt_tokens, cached_tokens AS cached, evicted_tokens AS evicted,
                           salt_tokens AS salt, lora_tokens AS lora, multimodal_tokens AS multimodal,
                           tokenisation_tokens AS tokenisation, skipped_tokens AS skipped, never_seen_tokens AS never_seen, tail_tokens AS tail
                    FROM prefix_lookups)
           ON cached, evicted, salt, lora, multimodal, tokenisation, skipped, never_seen, tail INTO NAME reason VALUE tokens)
SELECT reason, sum(tokens)::BIGINT AS tokens, sum(prompt_tokens)::BIGINT AS prompt_tokens,
       sum(tokens) / nullif(sum(prompt_tokens), 0) AS token_ratio, count(*) FILTER (tokens > 0) AS requests_count,
       CASE WHEN reason NOT IN ('cached', 'tail') THEN count(*) FILTER (miss_reason = reason) END AS first_miss_count,
       max(time_ns) FILTER (tokens > 0) AS last_ns
FROM u GROUP BY reason;
