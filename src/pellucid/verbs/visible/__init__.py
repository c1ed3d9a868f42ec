"""What can be seen: of this machine, of an engine, in a run."""
