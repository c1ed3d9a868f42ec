"""The batches of captured steps, from the run's own record: better than anything a trace shows.

    batches_of(run, [812, 813])   {812: Batch(tokens=64, prefills=0, decodes=64, queries=(1, …), contexts=(1005, …)), …}
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.store.read import RunReader
from pellucid.trace.work.batches import Batch

MOST = "SELECT step, request, tokens, phase, position FROM step_requests WHERE step BETWEEN $first AND $last"


def batches_of(run: RunReader, steps: Sequence[int]) -> dict[int, Batch]:
    """Of the steps that were recorded. Of one engine core: with several, the number of a step tells of none."""
    cores = run.one("SELECT count(DISTINCT process) AS n FROM steps")["n"]
    if not steps or cores != 1:
        return {}
    found: dict[int, list[tuple[int, int, str]]] = {}
    for row in run.rows(MOST, {"first": min(steps), "last": max(steps)}):
        found.setdefault(row["step"], []).append((row["tokens"], row["position"], row["phase"]))
    return {step: _batch(found[step]) for step in steps if step in found}


def _batch(shares: list[tuple[int, int, str]]) -> Batch:
    decodes = sum(phase == "decode" for _, _, phase in shares)
    decoded = sum(tokens for tokens, _, phase in shares if phase == "decode")
    tokens = sum(tokens for tokens, _, _ in shares)
    return Batch(
        tokens=tokens, prefills=len(shares) - decodes, decodes=decodes, decode_tokens=decoded,
        longest_query=max(tokens for tokens, _, _ in shares), longest_context=max(p + t for t, p, _ in shares),
        queries=tuple(t for t, _, _ in shares), contexts=tuple(p + t for t, p, _ in shares),
    )  # fmt: skip
