-- One row of all lookups: both hit rates with their parts, and achieved against possible. Columns as in lookup_groups.
CREATE OR REPLACE VIEW prefix_rates AS
SELECT * EXCLUDE (grouped, family, task) FROM lookup_groups WHERE grouped = 'all';
