"""What would happen: schedules on virtual time, how long a step takes, and on paper any model on any GPU."""
