-- Steps of the whole span. What does not change from one window of a diagnosis to the next, such as what a step costs, is
-- taken from here; `steps` are those of the window. Outside of a diagnosis both are the run.
--   columns as in steps
CREATE OR REPLACE VIEW span_steps AS SELECT * FROM steps;
