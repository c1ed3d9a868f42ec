"""What would happen: predictions from geometry, devices and recordings, without an engine."""
