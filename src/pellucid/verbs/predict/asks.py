"""A workload → what a twin is asked; and why not, where a workload leaves it open.

    asks_of(workload) → [Ask(arrival_ns=0, prompt_tokens=500, …), …]       in the file's order
"""

from __future__ import annotations

from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.request import Ask
from pellucid.workload.file import Workload


def asks_of(workload: Workload) -> list[Ask]:
    """Raises CannotAnswer where nobody knows when requests come, or how long answers are."""
    asks: list[Ask] = []
    last_turn: dict[str, int] = {}
    for row in workload.requests.to_pylist():
        if row["arrival_ns"] is None:
            raise CannotAnswer("the workload has no arrival times, so there is no load to predict for. "
                               "Try: a workload that was recorded, or --rate")  # fmt: skip
        if row["output_tokens"] is None:
            raise CannotAnswer("the workload does not say how long answers are. Try: --output-tokens N")
        session, index = row["session"], len(asks)
        follows = last_turn.get(session) if session is not None and row["think_ns"] is not None else None
        asks.append(Ask(
            row["arrival_ns"], row["prompt_tokens"], row["output_tokens"], tuple(row["blocks"] or ()),
            (row["block_tokens"] or 0) if row["blocks"] else 0, follows, row["think_ns"] or 0,
        ))  # fmt: skip
        if session is not None:
            last_turn[session] = index
    return asks
