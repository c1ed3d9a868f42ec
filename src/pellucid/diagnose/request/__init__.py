"""One request: what was recorded of it, its latency span by span, its slow token gaps."""
