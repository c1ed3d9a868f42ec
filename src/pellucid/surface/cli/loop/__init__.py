"""Commands of the loop."""
