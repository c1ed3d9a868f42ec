-- A request's latency in spans that add up to TTFT and E2E, as far as each end was seen.
--   network      client or gateway sent it, by its own clock → HTTP request seen; null without its X-Request-Start, and
--                where the sender's clock is ahead of ours. TTFT and E2E begin with it where it is known
--   frontend     HTTP request seen → in the scheduler's queue (parsing, tokenisation, transport)
--   queue        → start of the first step with a token of it
--   prefill      → end of the step that sampled the first token
--   first_sample → the frontend put the first token in the stream
--   ttft_ns BIGINT, e2e_ns BIGINT, itl_mean_ns DOUBLE, and the spans, ns; null where an end is missing
CREATE OR REPLACE VIEW request_latency AS
SELECT *,
       CASE WHEN sent_ns <= arrival_ns THEN arrival_ns - sent_ns END AS ttft_network_ns,
       queued_ns - arrival_ns                AS ttft_frontend_ns,
       scheduled_ns - queued_ns              AS ttft_queue_ns,
       first_token_ns - scheduled_ns         AS ttft_prefill_ns,
       first_delivered_ns - first_token_ns   AS ttft_first_sample_ns,
       first_delivered_ns - arrival_ns + coalesce(ttft_network_ns, 0) AS ttft_ns,
       last_delivered_ns - arrival_ns + coalesce(ttft_network_ns, 0)  AS e2e_ns,
       (last_token_ns - first_token_ns) / nullif(output_tokens - 1, 0) AS itl_mean_ns
FROM requests;
