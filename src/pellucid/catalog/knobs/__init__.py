"""Settings as data, their names, and how each engine spells them."""
