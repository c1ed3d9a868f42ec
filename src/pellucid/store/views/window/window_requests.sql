-- Requests of each window: first tokens placed by their delivery, prompts by the first step with a token of them.
--   ttft_requests_count BIGINT, ttft_p50_ns, ttft_p95_ns DOUBLE
--   admitted_requests_count BIGINT      first admissions whose cached tokens are known
--   prompt_tokens, cached_tokens DOUBLE, hit_requests_count BIGINT      of those: prompts, found cached, with any found
CREATE OR REPLACE MACRO window_requests(edges) AS TABLE
WITH t AS (SELECT window_number, count(ttft_ns) AS ttft_requests_count,
                  quantile_cont(ttft_ns, 0.50) AS ttft_p50_ns, quantile_cont(ttft_ns, 0.95) AS ttft_p95_ns
           FROM window_bounds(edges) JOIN request_latency
                ON first_delivered_ns >= from_ns AND first_delivered_ns < until_ns
           GROUP BY window_number),
     p AS (SELECT window_number, count(*) AS admitted_requests_count,
                  sum(prompt_tokens)::DOUBLE AS prompt_tokens, sum(cached_tokens)::DOUBLE AS cached_tokens,
                  count(*) FILTER (cached_tokens > 0) AS hit_requests_count
           FROM window_bounds(edges) JOIN requests ON scheduled_ns >= from_ns AND scheduled_ns < until_ns
           WHERE prompt_tokens IS NOT NULL AND cached_tokens IS NOT NULL
           GROUP BY window_number)
SELECT * FROM window_bounds(edges) LEFT JOIN t USING (window_number) LEFT JOIN p USING (window_number);
