-- The busiest engine core of each window, from its host samples. One that shares its process with a worker is left out:
-- its CPU time is not its own.
--   core_samples_count BIGINT
--   core_cpu_ns DOUBLE ÷ core_interval_ns DOUBLE      CPU time of the process ÷ wall time; 1 is one core
--   core_gc_pause_ns DOUBLE                           time in garbage collections, of the same wall time
CREATE OR REPLACE MACRO window_cores(edges) AS TABLE
SELECT window_number, count(*)                             AS core_samples_count,
       sum(cpu_user_ns + cpu_system_ns)::DOUBLE            AS core_cpu_ns,
       sum(interval_ns)::DOUBLE                            AS core_interval_ns,
       sum(gc_pause_ns)::DOUBLE                            AS core_gc_pause_ns
FROM window_bounds(edges) JOIN host ON time_ns >= from_ns AND time_ns < until_ns
     SEMI JOIN (SELECT process FROM processes
                WHERE role LIKE '%engine_core%' AND role NOT LIKE '%worker%') USING (process)
GROUP BY window_number, process
QUALIFY row_number() OVER (PARTITION BY window_number ORDER BY core_cpu_ns / core_interval_ns DESC NULLS LAST) = 1;
