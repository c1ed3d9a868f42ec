"""Commands that list rows: what they share is in `listing`."""
