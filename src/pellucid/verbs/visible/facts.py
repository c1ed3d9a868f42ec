"""What each process said last about each fact. It may turn blind on the way: the probe sheds what costs too much.

    latest_facts(run) → [{"process": "worker-12", "fact": "worker.times", "state": "blind", "reason": "shed: …"}, …]
"""

from __future__ import annotations

from typing import Any

from pellucid.store.read import RunReader

Fact = dict[str, Any]


def latest_facts(run: RunReader) -> list[Fact]:
    latest = {(f["process"], f["fact"]): f for f in run.rows("SELECT * FROM facts")}  # rows come as they were written
    return list(latest.values())


def unseen(facts: list[Fact]) -> dict[str, list[Fact]]:
    """Facts that no process sees, by name, with what each says of it. What one of them sees is visible."""
    by_name: dict[str, list[Fact]] = {}
    for fact in sorted(facts, key=lambda f: str(f["fact"])):
        by_name.setdefault(str(fact["fact"]), []).append(fact)
    return {name: said for name, said in by_name.items() if all(f.get("state") == "blind" for f in said)}
