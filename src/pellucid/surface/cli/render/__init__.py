"""Answers of verbs → text for a terminal, one file per view. Nothing is computed here but a unit's spelling."""
