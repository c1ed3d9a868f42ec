-- Lives of cached KV blocks, with what their moments say together.
--   the columns of kv_residency
--   age_ns BIGINT        cached → removed; null while it is there
--   idle_ns BIGINT       last used → removed: how long nobody found it before it went; null while it is there
--   used_ns BIGINT       cached → last used; 0 for a block that nobody found
CREATE OR REPLACE VIEW block_lives AS
SELECT *, removed_ns - cached_ns AS age_ns, removed_ns - last_used_ns AS idle_ns, last_used_ns - cached_ns AS used_ns
FROM kv_residency;
