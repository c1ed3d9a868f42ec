"""A model's config.json → Geometry. What is not known is refused by name; nothing is guessed."""
