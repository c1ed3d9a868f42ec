-- A phase of a capture: how its time passed, how near its kernels are to their roofs, and what a token costs in energy.
--   capture VARCHAR, phase VARCHAR, steps_count BIGINT, kernels_count BIGINT, kernels_ns BIGINT, step_ns BIGINT,
--   busy_ns BIGINT, idle_ns BIGINT, tokens BIGINT    as in capture_phases
--   roof_ns BIGINT             least time of the kernels whose work is known …
--   roofed_ns BIGINT           … which took so long; both null where none is
--   token_joules DOUBLE        energy of a token of this phase in the whole run (phase_energy); null where no board told
CREATE OR REPLACE VIEW kernel_phases AS
SELECT p.*, r.roof_ns, r.roofed_ns, e.token_joules
FROM capture_phases p
     LEFT JOIN (SELECT capture, phase, sum(roof_ns)::BIGINT AS roof_ns, sum(roofed_ns)::BIGINT AS roofed_ns
                FROM kernel_classes GROUP BY capture, phase) r
            ON p.capture = r.capture AND p.phase IS NOT DISTINCT FROM r.phase
     LEFT JOIN phase_energy e ON p.phase = e.phase;
