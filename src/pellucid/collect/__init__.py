"""The world → rows, without interpretation. `loop.record` is the recorder."""
