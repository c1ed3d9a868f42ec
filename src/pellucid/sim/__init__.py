"""What would happen: an engine's scheduling on virtual time, how long its steps take, and on paper any model and GPU."""
