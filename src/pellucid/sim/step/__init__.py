"""How long a step takes: recorded steps in, a model with intervals out."""
