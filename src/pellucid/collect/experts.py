"""A worker's window of one layer and task → rows of `experts`, one for each expert.

    {"l": 3, "x": "chat", "t": 5, "k": 2, "c": [5, 1, 4, 0], "p": None, "r": 1, …}   →   four rows, 5 1 4 0 tokens
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pellucid.store.schema import EXPERTS
from pellucid.store.write import Row


def rows(provenance: dict[str, Any], seen: dict[str, Any]) -> Iterator[Row]:
    """Raises KeyError or TypeError on a record of another probe."""
    window = {
        **provenance, "task": seen["x"], "start_ns": seen["s"], "end_ns": seen["e"], "first_step": seen["a"],
        "last_step": seen["b"], "steps_count": seen["n"], "layer": seen["l"], "ranks_count": seen["r"],
        "top_k_count": seen["k"], "layer_tokens": seen["t"],
    }  # fmt: skip
    ranks = seen["p"] or [None] * len(seen["c"])
    for expert, (tokens, rank) in enumerate(zip(seen["c"], ranks, strict=True)):
        known = {**window, "expert": expert, "rank": rank, "expert_tokens": tokens}
        yield tuple(known.get(name) for name in EXPERTS.names())
