-- A process of the engine, once: `sources` gets a row whenever a description changes; this is the fullest.
--   columns as in sources; lost_count and torn_count are the highest seen
CREATE OR REPLACE VIEW processes AS
SELECT * REPLACE (max(lost_count) OVER (PARTITION BY process) AS lost_count,
                  max(torn_count) OVER (PARTITION BY process) AS torn_count)
FROM sources
QUALIFY row_number() OVER (PARTITION BY process ORDER BY length(config_json) DESC, anchor_mono_ns NULLS LAST) = 1;
