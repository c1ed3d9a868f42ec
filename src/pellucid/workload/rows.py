"""Requests one by one → the table of a workload: in order of arrival, from zero on.

    rows = Rows()
    rows.add(Request(prompt_tokens=4808, output_tokens=10, arrival_ns=1_700_158_623_979_960_000))
    rows.workload("azure.csv.gz", "azure")

Rows are packed by the batch, so that a file of millions of requests takes the memory of its numbers only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pellucid.workload.file import SCHEMA, About, Workload

BATCH_ROWS = 65_536
# What nobody can tell of a workload in which a column has no value.
BLIND = {
    "arrival_ns": "the source has no arrival times: rate and bursts are blind, a replay brings its own",
    "output_tokens": "the source has no answer lengths: a replay cannot ask for them",
    "blocks": "the source does not tell what prompts share: prefix reuse is blind, prompts are made without any",
    "task": "the source has no traffic classes: nothing can be told by task",
    "session": "the source does not say which requests are one conversation: the order of turns is blind",
    "response_format": "the source does not tell structured output: what grammars cost is blind",
    "think_ns": "the source has no think times: later turns come when they came, not when their user has read",
    "temperature": "not in the source: the replay's own sampling counts",
    "top_p": "not in the source: the replay's own sampling counts",
    "top_k": "not in the source: the replay's own sampling counts",
    "seeded": "the source does not tell seeds: a replay gives none",
    "max_tokens": "not in the source: a replay asks for the answer's length",
}


@dataclass(frozen=True, slots=True)
class Request:
    prompt_tokens: int
    output_tokens: int | None = None
    arrival_ns: int | None = None            # by any clock
    blocks: Sequence[int] | None = None
    block_tokens: int | None = None
    task: str | None = None
    session: str | None = None
    response_format: str | None = None
    think_ns: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    top_k: int | None = None
    seeded: str | None = None


_values = attrgetter(*SCHEMA.names)


@dataclass(slots=True)
class Rows:
    read_count: int = 0                                           # requests or lines looked at
    left_out: Counter[str] = field(default_factory=Counter)      # reason → how many
    notes: list[str] = field(default_factory=list)
    in_order: bool = True                                         # they should come as they arrived; else it is noted
    _waiting: list[tuple[Any, ...]] = field(default_factory=list)
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, request: Request) -> None:
        self._waiting.append(_values(request))
        if len(self._waiting) == BATCH_ROWS:
            self._pack()

    def workload(
        self, source: str, kind: str, seed: int | None = None, why_missing: Mapping[str, str] | None = None
    ) -> Workload:
        """`why_missing`: better reasons than BLIND's for columns without a value."""
        self._pack()
        table = pa.Table.from_batches(self._batches, SCHEMA)
        back_count = _back_count(table)
        if back_count:
            table = table.take(pc.sort_indices(table, [("arrival_ns", "ascending")]))     # stable; nulls come last
            if self.in_order:
                self.notes.append(f"{back_count:,} requests stood before one that had arrived earlier: sorted")
        reasons = {**BLIND, **(why_missing or {})}
        missing = {n: reasons[n] for n in SCHEMA.names if n in reasons and table.column(n).null_count == len(table)}
        counts = len(table), self.read_count, dict(self.left_out)
        about = About(source, kind, seed, *counts, missing, tuple(self.notes))
        return Workload(about, _from_zero(table))

    def _pack(self) -> None:
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            arrays = [pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
            self._waiting.clear()


def _back_count(table: pa.Table) -> int:
    """Neighbours of which the second arrived earlier."""
    seen = pc.drop_null(table.column("arrival_ns"))
    if len(seen) < 2:
        return 0
    return int(pc.sum(pc.less(seen.slice(1), seen.slice(0, len(seen) - 1))).as_py() or 0)


def _from_zero(table: pa.Table) -> pa.Table:
    arrivals = table.column("arrival_ns")
    first_ns = pc.min(arrivals)
    if first_ns.as_py() is None:
        return table
    place = SCHEMA.get_field_index("arrival_ns")
    return table.set_column(place, SCHEMA.field(place), pc.subtract(arrivals, first_ns))
