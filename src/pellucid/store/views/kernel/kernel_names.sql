-- What the time of a phase went to, by name of kernel.
--   capture VARCHAR, phase VARCHAR, name VARCHAR, kind VARCHAR, class VARCHAR, detail VARCHAR    as in kernels
--   op VARCHAR                 the operator that launched most of them
--   kernels_count BIGINT       kernels
--   duration_ns BIGINT         sum of their durations …
--   phase_ns BIGINT            … of so much kernel time in the phase; null of copies and fills, which do not count
--   mean_ns DOUBLE, longest_ns BIGINT    of one; the longest is null in a table of sums
--   roof_ns BIGINT, roofed_ns BIGINT, bound VARCHAR, work_note VARCHAR    as in kernel_classes
CREATE OR REPLACE VIEW kernel_names AS
WITH n AS (SELECT capture, phase, name, kind, class, detail, mode(op) AS op, sum(count)::BIGINT AS kernels_count,
                  sum(duration_ns)::BIGINT AS duration_ns, sum(duration_ns) / sum(count) AS mean_ns,
                  max(duration_ns) FILTER (count = 1) AS longest_ns, sum(roof_ns)::BIGINT AS roof_ns,
                  sum(duration_ns) FILTER (roof_ns IS NOT NULL)::BIGINT AS roofed_ns, mode(bound) AS bound,
                  max(work_note) AS work_note
           FROM kernels GROUP BY capture, phase, name, kind, class, detail)
SELECT capture, phase, name, kind, class, detail, op, kernels_count, duration_ns,
       CASE WHEN kind IN ('kernel', 'op') THEN sum(duration_ns) FILTER (kind IN ('kernel', 'op'))
            OVER (PARTITION BY capture, phase)::BIGINT END AS phase_ns, mean_ns,
       longest_ns, roof_ns, roofed_ns, bound, work_note
FROM n;
