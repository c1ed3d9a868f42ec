-- A request's share of a step: `step_runs` unfolded, one row per step and request.
--   process VARCHAR         engine core
--   step BIGINT             step number
--   request BIGINT          request number
--   tokens BIGINT           tokens computed for it in this step
--   output_tokens BIGINT    tokens sampled for it in this step
--   phase VARCHAR           prefill, decode, recompute or discarded
--   position BIGINT         position of its first token in this step
CREATE OR REPLACE VIEW step_requests AS
SELECT process,
       unnest(generate_series(first_step, last_step)) AS step,
       request,
       step_tokens AS tokens,
       output_tokens,
       phase,
       first_position + step_tokens * (unnest(generate_series(first_step, last_step)) - first_step) AS position
FROM step_runs;
