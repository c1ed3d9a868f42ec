-- Lookups by traffic class. Columns as in lookup_groups.
CREATE OR REPLACE VIEW prefix_tasks AS
SELECT * EXCLUDE (grouped, family) FROM lookup_groups WHERE grouped = 'task';
