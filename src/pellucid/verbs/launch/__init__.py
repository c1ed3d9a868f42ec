"""Starting an engine as its user would, with the probe in."""
