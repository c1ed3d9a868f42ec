"""`pellucid predict`: what would happen. On paper, from a config.json and a GPU: `paper`."""
