-- Devices in each window, from their samples; all devices of the run together.
--   device_samples_count BIGINT
--   device_utilisation_ratio DOUBLE        mean over samples
--   device_memory_used_bytes ÷ device_memory_of_bytes DOUBLE     of the sample with the fullest memory
--   device_power_watts DOUBLE              mean of a device
--   device_energy_joules DOUBLE            used by all of them, from the boards' counters
--   throttled_samples_count BIGINT ÷ throttle_seen_count BIGINT  samples with the clock held down ÷ samples that tell
--   device_temperature_celsius DOUBLE      the highest
--   device_xid_count DOUBLE                XID errors
CREATE OR REPLACE MACRO window_devices(edges) AS TABLE
WITH d AS (SELECT *, energy_joules - lag(energy_joules) OVER (PARTITION BY device ORDER BY time_ns) AS used_joules,
                  xid_count - lag(xid_count, 1, 0) OVER (PARTITION BY device ORDER BY time_ns)      AS fresh_xid_count
           FROM gpu)
SELECT window_number, count(*)                                            AS device_samples_count,
       avg(utilisation_ratio)                                             AS device_utilisation_ratio,
       arg_max(memory_used_bytes, memory_used_bytes / memory_total_bytes)::DOUBLE  AS device_memory_used_bytes,
       arg_max(memory_total_bytes, memory_used_bytes / memory_total_bytes)::DOUBLE AS device_memory_of_bytes,
       avg(power_watts)                                                   AS device_power_watts,
       sum(used_joules)                                                   AS device_energy_joules,
       count(*) FILTER (throttle_reasons <> '')                           AS throttled_samples_count,
       count(throttle_reasons)                                            AS throttle_seen_count,
       max(temperature_celsius)                                           AS device_temperature_celsius,
       sum(fresh_xid_count)::DOUBLE                                       AS device_xid_count
FROM window_bounds(edges) JOIN d ON time_ns >= from_ns AND time_ns < until_ns
GROUP BY window_number;
