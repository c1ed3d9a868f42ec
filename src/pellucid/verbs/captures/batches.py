"""The batches of captured steps, from the run's own record: better than anything a trace shows.

    batches_of(run, [812, 813])   {812: Batch(tokens=64, prefills=0, decodes=64, queries=(1, …), contexts=(1005, …)), …}

Which request has how many tokens is written when that changes, so of steps a moment old it may not be there yet: their
batches have no contexts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.store.read import RunReader
from pellucid.trace.work.batches import Batch

STEPS = """
    SELECT step, scheduled_tokens, decode_tokens + draft_tokens AS decode_tokens, prefill_requests_count,
           decode_requests_count FROM steps WHERE step BETWEEN $first AND $last"""
QUIET = """
    SELECT step, start_ns, idle_ns, host_gap_ns FROM steps WHERE step BETWEEN $first AND $last ORDER BY step"""
SHARES = "SELECT step, tokens, position FROM step_requests WHERE step BETWEEN $first AND $last"
Share = tuple[int, int]         # tokens and positions seen, of one request


def batches_of(run: RunReader, steps: Sequence[int]) -> dict[int, Batch]:
    """Of the steps that were recorded. Of one engine core: with several, the number of a step tells of none."""
    cores = run.one("SELECT count(DISTINCT process) AS n FROM steps")["n"]
    if not steps or cores != 1:
        return {}
    edges = {"first": min(steps), "last": max(steps)}
    shares: dict[int, list[Share]] = {}
    for row in run.rows(SHARES, edges):
        shares.setdefault(row["step"], []).append((row["tokens"], row["position"] + row["tokens"]))
    wanted = set(steps)
    return {row["step"]: _batch(row, shares.get(row["step"], [])) for row in run.rows(STEPS, edges)
            if row["step"] in wanted and row["scheduled_tokens"] is not None}  # fmt: skip


def quiet_of(run: RunReader, steps: Sequence[int]) -> list[tuple[int, int]] | None:
    """From when to when no request was there, between the first of these steps and the last. None where that is not
    known: of several engine cores, or where the record lacks one of the steps or does not tell what came before it."""
    cores = run.one("SELECT count(DISTINCT process) AS n FROM steps")["n"]
    if not steps or cores != 1:
        return None
    rows = run.rows(QUIET, {"first": min(steps), "last": max(steps)})
    untold = [r for r in rows[1:] if r["idle_ns"] is None and r["host_gap_ns"] is None]
    if untold or len(rows) != max(steps) - min(steps) + 1:
        return None
    return [(r["start_ns"] - r["idle_ns"], r["start_ns"]) for r in rows if r["idle_ns"]]


def _batch(step: dict[str, Any], shares: list[Share]) -> Batch:
    whole = sum(tokens for tokens, _ in shares) == step["scheduled_tokens"]
    queries, contexts = zip(*shares, strict=True) if whole else ((), ())
    return Batch(
        tokens=step["scheduled_tokens"], prefills=step["prefill_requests_count"],
        decodes=step["decode_requests_count"], decode_tokens=step["decode_tokens"],
        longest_query=max(queries, default=None), longest_context=max(contexts, default=None),
        queries=queries, contexts=contexts,
    )  # fmt: skip
