"""The work of each kernel, from shapes and batches, and the least time its device could do it in."""
