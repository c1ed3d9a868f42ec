"""Facts about devices."""
