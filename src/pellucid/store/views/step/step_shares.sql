-- What a request cost in a step: the step's time by its share of the tokens computed. Shares of a step add up to it.
-- Tokens are the measure: right where the cost of a token is even (prompts, a compute-bound step); a decode that reads
-- a long context costs more than its share says, and what a step costs however few are in it is spread evenly.
--   process VARCHAR, step BIGINT, request BIGINT, phase VARCHAR, tokens BIGINT as in step_requests
--   share_ratio DOUBLE          tokens over the step's scheduled tokens
--   worker_share_ns DOUBLE      of the workers' wall time; null where it was not seen
--   device_share_ns DOUBLE      of the device time; null where no device clock is read
CREATE OR REPLACE VIEW step_shares AS
SELECT r.process, r.step, r.request, r.phase, r.tokens,
       r.tokens / s.scheduled_tokens               AS share_ratio,
       s.worker_ns * r.tokens / s.scheduled_tokens AS worker_share_ns,
       s.device_ns * r.tokens / s.scheduled_tokens AS device_share_ns
FROM step_requests r JOIN steps s USING (process, step);
