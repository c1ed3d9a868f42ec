"""How right the twin is, and how fast: measured against real engines."""
