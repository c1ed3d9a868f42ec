-- Prefix families: requests whose first block has the same tokens. Columns as in lookup_groups, and
--   tasks VARCHAR      traffic classes of its requests
CREATE OR REPLACE VIEW prefix_families AS
WITH t AS (SELECT family, string_agg(DISTINCT task, ', ' ORDER BY task) AS tasks
           FROM prefix_lookups JOIN requests USING (process, request) GROUP BY family)
SELECT g.* EXCLUDE (grouped, task), t.tasks FROM lookup_groups g LEFT JOIN t ON g.family IS NOT DISTINCT FROM t.family
WHERE grouped = 'family';
