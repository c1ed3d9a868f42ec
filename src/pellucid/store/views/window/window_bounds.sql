-- Windows of a run from their starts: number n reaches to the start of n + 1, the last one to the end of time.
-- All of this folder are table macros: `SELECT * FROM window_steps([100, 200, 300])`. They give one row per window.
--   edges BIGINT[]            starts, ascending
--   window_number BIGINT      from 0
--   from_ns BIGINT, until_ns BIGINT    [from, until)
CREATE OR REPLACE MACRO window_bounds(edges) AS TABLE
SELECT unnest(range(len(edges)))                                  AS window_number,
       unnest(edges)                                              AS from_ns,
       unnest(list_append(edges[2:], 9223372036854775807::BIGINT)) AS until_ns;
