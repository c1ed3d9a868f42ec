"""Nsight Compute: CSV pages → Launches."""
