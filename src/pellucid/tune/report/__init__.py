"""What a session or a trial was, as one tree for a page or for JSON. Values in, values out; no IO."""
