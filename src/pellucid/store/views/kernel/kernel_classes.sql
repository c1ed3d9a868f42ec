-- What the time of a phase went to, by class of kernel. Copies and fills do not count. Numerators, no bare ratios.
--   capture VARCHAR, phase VARCHAR, class VARCHAR    as in kernels
--   details VARCHAR            details of its kernels, the one with most time first
--   kernels_count BIGINT       kernels
--   duration_ns BIGINT         sum of their durations …
--   phase_ns BIGINT            … of so much kernel time in the phase
--   steps_count BIGINT         steps of the phase; null where the trace has none
--   step_ns DOUBLE             duration_ns ÷ steps_count
--   roof_ns BIGINT             least time at the roof, of the kernels whose work is known …
--   roofed_ns BIGINT           … which took so long
--   needed_flop DOUBLE, needed_bytes DOUBLE     their work; null where none is known
--   bound VARCHAR              compute or memory: which roof most of roof_ns comes from
--   roof_basis VARCHAR         as in kernels; the less certain one where they differ
--   work_note VARCHAR          as in kernels, one of them
CREATE OR REPLACE VIEW kernel_classes AS
WITH d AS (SELECT capture, phase, class, detail, sum(duration_ns) AS ns FROM kernels
           WHERE detail IS NOT NULL AND kind IN ('kernel', 'op') GROUP BY ALL),
     l AS (SELECT capture, phase, class, string_agg(detail, ' ' ORDER BY ns DESC, detail) AS details FROM d GROUP BY ALL),
     c AS (SELECT capture, phase, class, sum(count)::BIGINT AS kernels_count, sum(duration_ns)::BIGINT AS duration_ns,
                  sum(roof_ns)::BIGINT AS roof_ns, sum(duration_ns) FILTER (roof_ns IS NOT NULL)::BIGINT AS roofed_ns,
                  sum(flop) FILTER (roof_ns IS NOT NULL) AS needed_flop,
                  sum(moved_bytes) FILTER (roof_ns IS NOT NULL) AS needed_bytes,
                  CASE WHEN sum(roof_ns) IS NULL THEN NULL
                       WHEN coalesce(sum(roof_ns) FILTER (bound = 'compute'), 0) > 0.5 * sum(roof_ns) THEN 'compute'
                       ELSE 'memory' END AS bound,
                  max(roof_basis) AS roof_basis, max(work_note) AS work_note
           FROM kernels WHERE kind IN ('kernel', 'op') GROUP BY capture, phase, class)
SELECT c.capture, c.phase, c.class, details, c.kernels_count, duration_ns,
       sum(duration_ns) OVER (PARTITION BY c.capture, c.phase)::BIGINT AS phase_ns, steps_count,
       duration_ns / steps_count AS step_ns, roof_ns, roofed_ns, needed_flop, needed_bytes, bound, roof_basis, work_note
FROM c LEFT JOIN l ON c.capture = l.capture AND c.class = l.class AND c.phase IS NOT DISTINCT FROM l.phase
       LEFT JOIN capture_phases p ON c.capture = p.capture AND c.phase IS NOT DISTINCT FROM p.phase;
