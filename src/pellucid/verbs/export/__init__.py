"""A run → files that other programs open. `perfetto`: a timeline as Chrome's JSON trace events."""
