"""Nsight Systems: the SQLite export → a Timeline; CSV reports → a Timeline or a KernelTable."""
