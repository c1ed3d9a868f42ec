-- What a token of a phase cost in energy, from steps that were of one phase alone, and the power the boards took meanwhile.
--   phase VARCHAR              prefill, decode or mixed
--   steps_count BIGINT         steps whose power is known: those up to the last sample of each board
--   tokens BIGINT              tokens computed in them
--   step_ns BIGINT             time in them
--   energy_joules DOUBLE       power × time, of all boards; power is that of the sample that a step ends in
--   token_joules DOUBLE        energy_joules ÷ tokens; null without tokens
CREATE OR REPLACE VIEW phase_energy AS
WITH g AS (SELECT device, time_ns,
                  coalesce((energy_joules - lag(energy_joules) OVER w) * 1e9 / nullif(time_ns - lag(time_ns) OVER w, 0),
                           power_watts) AS watts
           FROM gpu WINDOW w AS (PARTITION BY device ORDER BY time_ns)),
     s AS (SELECT CASE WHEN decode_requests_count = 0 THEN 'prefill' WHEN prefill_requests_count = 0 THEN 'decode'
                       ELSE 'mixed' END AS phase, start_ns, end_ns, scheduled_tokens
           FROM steps WHERE decode_requests_count IS NOT NULL AND prefill_requests_count IS NOT NULL),
     j AS (SELECT s.phase, s.start_ns, any_value(s.end_ns - s.start_ns) AS step_ns,
                  any_value(s.scheduled_tokens) AS tokens,
                  sum(watts * (s.end_ns - s.start_ns) / 1e9) AS energy_joules, count(watts) AS boards
           FROM (SELECT s.*, d.device FROM s CROSS JOIN (SELECT DISTINCT device FROM gpu) d) s
                ASOF JOIN g ON g.device = s.device AND g.time_ns >= s.end_ns
           GROUP BY s.phase, s.start_ns)
SELECT phase, count(*) AS steps_count, sum(tokens)::BIGINT AS tokens, sum(step_ns)::BIGINT AS step_ns,
       sum(energy_joules) AS energy_joules, sum(energy_joules) / nullif(sum(tokens), 0) AS token_joules
FROM j WHERE boards = (SELECT count(DISTINCT device) FROM gpu) GROUP BY phase;
