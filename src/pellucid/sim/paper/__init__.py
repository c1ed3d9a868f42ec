"""Prediction on paper: a config.json and a GPU, nothing recorded → fit, bounds of speed, cost."""
