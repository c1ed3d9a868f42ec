"""An engine's Python source looked at without importing it: in a wheel, or where it is installed."""
