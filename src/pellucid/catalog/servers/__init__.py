"""Engines as HTTP servers: what each takes beyond the OpenAI API."""
