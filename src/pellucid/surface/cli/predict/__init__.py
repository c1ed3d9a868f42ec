"""`pellucid predict`."""
