"""Captures of kernels: asking a running engine for one, making rows of its traces, listing and comparing them."""
