-- Energy of the devices and what a token cost of it, from the boards' own energy counters.
--   device VARCHAR                     index and product name
--   span_ns BIGINT                     first to last sample
--   energy_joules DOUBLE               used in between; null where the board does not count it
--   output_tokens BIGINT               tokens sampled in between, by all engine cores of the run; of expired ones by the minute
--   output_token_joules DOUBLE         energy of all devices of the run ÷ those tokens; null without tokens
CREATE OR REPLACE VIEW device_energy AS
WITH d AS (SELECT device, min(time_ns) AS first_ns, max(time_ns) AS last_ns,
                  max(energy_joules) - min(energy_joules) AS energy_joules
           FROM gpu GROUP BY device),
     t AS (SELECT sum(output_tokens)::BIGINT AS output_tokens
           FROM (SELECT end_ns, output_tokens FROM steps UNION ALL SELECT end_ns, output_tokens FROM step_minutes)
           WHERE end_ns BETWEEN (SELECT min(first_ns) FROM d) AND (SELECT max(last_ns) FROM d))
SELECT device, last_ns - first_ns AS span_ns, energy_joules, output_tokens,
       sum(energy_joules) OVER () / nullif(output_tokens, 0) AS output_token_joules
FROM d, t;
