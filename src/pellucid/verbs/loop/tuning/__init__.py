"""A session of the loop performed: its engines, its proposers, its trials; what it decides is in `tune`."""
