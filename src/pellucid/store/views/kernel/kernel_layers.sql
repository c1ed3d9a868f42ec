-- What a layer of the model took in a phase, by class of kernel.
--   capture VARCHAR, phase VARCHAR, layer BIGINT, class VARCHAR    as in kernels; a null layer is outside of layers
--   kernels_count BIGINT       kernels
--   duration_ns BIGINT         sum of their durations …
--   layer_ns BIGINT            … of so much kernel time of the layer in the phase
--   roof_ns BIGINT, roofed_ns BIGINT    as in kernel_classes
CREATE OR REPLACE VIEW kernel_layers AS
WITH n AS (SELECT capture, phase, layer, class, sum(count)::BIGINT AS kernels_count, sum(duration_ns)::BIGINT AS duration_ns,
                  sum(roof_ns)::BIGINT AS roof_ns, sum(duration_ns) FILTER (roof_ns IS NOT NULL)::BIGINT AS roofed_ns
           FROM kernels WHERE kind IN ('kernel', 'op') GROUP BY capture, phase, layer, class)
SELECT capture, phase, layer, class, kernels_count, duration_ns,
       sum(duration_ns) OVER (PARTITION BY capture, phase, layer)::BIGINT AS layer_ns, roof_ns, roofed_ns
FROM n;
