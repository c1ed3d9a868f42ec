"""The committed table of facts, for tests that hold a real engine against it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pellucid.catalog


def committed_facts(version: str, device: str, doing: str = "") -> set[tuple[str, str, str]]:
    """Fact, role and state as the catalog has them for an engine version (its minor) that does nothing special, or
    `doing`."""
    table = tomllib.loads((Path(pellucid.catalog.__file__).parent / "facts.toml").read_text())
    minor = ".".join(version.split(".")[:2])
    every = ("frontend", "engine_core", "worker")
    return {
        (name, role, seen["state"])
        for name, fact in table.items() if fact.get("only_with", doing) == doing
        for role in (every if fact["role"] == "every" else (fact["role"],))
        for seen in fact["seen"]
        if (seen["engine"], seen["version"], seen["device"]) == ("vllm", minor, device)
    }
