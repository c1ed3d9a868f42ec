"""What comes into a run without the probe: events an engine publishes, files that somebody has."""
