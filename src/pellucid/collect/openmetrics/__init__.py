"""Metrics pages → rows: parsed, put into our words, counters as increases. No judgement."""
