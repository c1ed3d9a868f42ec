"""Commands that bring facts into a run without the probe."""
