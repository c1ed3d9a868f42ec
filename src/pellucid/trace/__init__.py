"""Kernel traces → rows, without judging: loaders, classification, phases and places, the work of a kernel."""
