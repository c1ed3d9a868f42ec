"""The committed table of facts, for tests that hold a real engine against it."""

from __future__ import annotations

from pellucid.catalog.load import facts


def committed_facts(version: str, device: str, doing: str = "") -> set[tuple[str, str, str]]:
    """Fact, role and state as the catalog has them for an engine version (its minor) that does nothing special, or
    `doing`."""
    minor = ".".join(version.split(".")[:2])
    every = ("frontend", "engine_core", "worker")
    return {
        (name, role, seen.state)
        for name, fact in facts().items() if fact.only_with in ("", doing)
        for role in (every if fact.role == "every" else (fact.role,))
        for seen in fact.seen
        if (seen.engine, seen.version, seen.device) == ("vllm", minor, device)
    }
