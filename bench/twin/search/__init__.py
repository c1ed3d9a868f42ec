"""A search that asks the twin first, against others, over grids that were measured on real engines."""
