-- Where in a layer of the model a kernel stands: it is the n-th of its class there. Names may change, places do less.
--   capture VARCHAR, phase VARCHAR, class VARCHAR, name VARCHAR    as in kernels
--   place BIGINT               n, from 1; null outside of layers
--   kernels_count BIGINT       kernels of the name there
CREATE OR REPLACE VIEW kernel_places AS
WITH k AS (SELECT capture, phase, class, name,
                  CASE WHEN layer IS NOT NULL
                       THEN row_number() OVER (PARTITION BY process, capture, step, device_index, layer, class
                                               ORDER BY start_ns, correlation) END AS place
           FROM kernels WHERE kind IN ('kernel', 'op'))
SELECT capture, phase, class, name, place, count(*) AS kernels_count FROM k GROUP BY ALL;
