"""pellucid: makes an LLM inference engine see-through. `pellucid --help` is the way in."""

__version__ = "0.1.0"
