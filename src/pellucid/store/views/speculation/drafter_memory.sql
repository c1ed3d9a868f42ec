-- What a drafter holds in a worker beside the model it drafts for. Weights are parameters and buffers; what the drafter
-- shares with the model is the model's. Workers without speculation have no row.
--   process VARCHAR, dp_rank BIGINT
--   draft_weight_bytes BIGINT ÷ weight_bytes BIGINT     the drafter's own weights; all, the model's and its own
--   draft_kv_bytes BIGINT ÷ kv_bytes BIGINT             KV cache of the drafter's layers; of all layers
--   draft_bytes BIGINT ÷ held_bytes BIGINT              both together; null where one is
--   memory_ratio DOUBLE                                 the last two, one over the other
--   memory_note VARCHAR                                 why something is null; null where nothing is
CREATE OR REPLACE VIEW drafter_memory AS
WITH f AS (SELECT process, string_agg(DISTINCT reason, '; ' ORDER BY reason) FILTER (state = 'blind') AS blind
           FROM facts WHERE fact IN ('worker.draft_memory', 'worker.draft_kv') GROUP BY process),
     s AS (SELECT process, any_value(dp_rank) AS dp_rank, max(draft_weight_bytes) AS draft_weight_bytes,
                  max(model_weight_bytes) + max(draft_weight_bytes) AS weight_bytes,
                  max(draft_kv_bytes) AS draft_kv_bytes, max(worker_kv_bytes) AS kv_bytes
           FROM sources GROUP BY process)
SELECT process, dp_rank, draft_weight_bytes, weight_bytes, draft_kv_bytes, kv_bytes,
       draft_weight_bytes + draft_kv_bytes AS draft_bytes, weight_bytes + kv_bytes AS held_bytes,
       draft_bytes / nullif(held_bytes, 0) AS memory_ratio,
       CASE WHEN held_bytes IS NULL OR draft_bytes IS NULL
            THEN coalesce(blind, 'the probe that was there does not weigh drafters') END AS memory_note
FROM f LEFT JOIN s USING (process);
