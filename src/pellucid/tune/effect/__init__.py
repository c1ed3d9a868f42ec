"""The verdict on speed: paired blocks of two arms in, one word with its evidence out. Values in, values out; no IO."""
