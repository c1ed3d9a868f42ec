"""Where a kernel belongs: its step and phase, its layer, and why the device was idle before it."""
