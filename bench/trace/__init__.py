"""How fast traces are read."""
