"""Recorded steps as columns of equal length: what was in each, and how long it took.

    steps = seen(open_run(folder))
    steps.took_ns[k]       end of the step before → end of this one; with nothing before it, its own start → end

Where a run is long, blocks of consecutive steps are taken from all over it. Steps with a request whose share nobody saw
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pellucid.store.read import RunReader

Floats = npt.NDArray[np.float64]
MOST_STEPS, BLOCK_STEPS = 40_000, 64

_STEPS = """
WITH chosen AS (
    SELECT process, step, start_ns, end_ns, host_gap_ns, scheduled_tokens,
           end_ns - lag(end_ns) OVER (PARTITION BY process ORDER BY step) AS interval_ns,
           step - lag(step) OVER (PARTITION BY process ORDER BY step)     AS stride
    FROM steps
    QUALIFY (step // $block) % $every = 0
), shares AS (
    SELECT process, step, sum(tokens) AS tokens,
           count(*) FILTER (decodes)                                              AS decodes_count,
           coalesce(sum(position + tokens) FILTER (decodes), 0)                   AS decode_context_tokens,
           count(*) FILTER (NOT decodes)                                          AS chunks_count,
           coalesce(sum(tokens) FILTER (NOT decodes), 0)                          AS chunk_tokens,
           coalesce(sum(position + tokens) FILTER (NOT decodes), 0)               AS chunk_context_tokens,
           coalesce(sum(tokens * (position + (tokens + 1) / 2.0)) FILTER (NOT decodes), 0) AS chunk_pairs
    FROM (SELECT process, step, tokens, position, phase = 'decode' OR (phase = 'discarded' AND tokens = 1) AS decodes
          FROM step_requests WHERE (step // $block) % $every = 0)
    GROUP BY process, step
)
SELECT c.host_gap_ns IS NULL OR c.stride IS DISTINCT FROM 1 AS alone,
       CASE WHEN c.host_gap_ns IS NULL OR c.stride IS DISTINCT FROM 1 THEN c.end_ns - c.start_ns ELSE c.interval_ns END
           AS took_ns,
       s.tokens, s.decodes_count, s.decode_context_tokens, s.chunks_count, s.chunk_tokens, s.chunk_context_tokens,
       s.chunk_pairs
FROM chosen c JOIN shares s USING (process, step)
WHERE s.tokens = c.scheduled_tokens
ORDER BY c.process, c.step
"""


@dataclass(frozen=True, slots=True)
class Steps:
    alone: Floats                      # 1 where nothing ran right before it, or that was not seen
    took_ns: Floats
    tokens: Floats
    decodes_count: Floats
    decode_context_tokens: Floats      # positions that all its decodes see
    chunks_count: Floats
    chunk_tokens: Floats
    chunk_context_tokens: Floats       # positions that its chunks see with their last token
    chunk_pairs: Floats                # of a token and a position that it sees, in chunks

    def __len__(self) -> int:
        return len(self.took_ns)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Steps:
        return Steps(*(getattr(self, f.name)[chosen] for f in fields(self)))


def joined(parts: Sequence[Steps]) -> Steps:
    """Of several runs of one engine, one after the other."""
    return Steps(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Steps)))


def seen(run: RunReader) -> Steps:
    count = int(run.one("SELECT count(*) AS n FROM steps")["n"])
    every = max(1, -(-count // MOST_STEPS))
    rows = run.rows(_STEPS, {"block": BLOCK_STEPS, "every": every})
    found = Steps(*(np.array([row[f.name] for row in rows], dtype=np.float64) for f in fields(Steps)))
    return found.where(found.took_ns > 0)
