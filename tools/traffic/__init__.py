"""Prompts of scenarios, and traffic whose experts are known."""
