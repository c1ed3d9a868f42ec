"""Columns → a table of the store's schema; columns nobody gives are null.

    table(KERNELS, 14455, {"capture": "c1", "name": names, "duration_ns": numpy, …})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.store.schema import Table
from pellucid.trace.timeline import NOT_TOLD, Ids, Longs

Columns = Mapping[str, Any]      # a value for all rows, or one for each: a numpy array, an arrow array or a list


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose capture it is: provenance, and the id that all its rows carry."""

    capture: str
    process: str
    engine: str | None = None
    deployment: str = "default"
    dp_rank: int | None = None
    model: str | None = None

    def columns(self) -> dict[str, Any]:
        return {"deployment": self.deployment, "engine": self.engine, "process": self.process,
                "dp_rank": self.dp_rank, "capture": self.capture}  # fmt: skip


def table(schema: Table, count: int, columns: Columns) -> pa.Table:
    """Raises KeyError for a column the schema does not have."""
    unknown = set(columns) - set(schema.names())
    if unknown:
        raise KeyError(f"{schema.name} has no {', '.join(sorted(unknown))}")
    arrow = schema.arrow()
    return pa.Table.from_arrays([_array(columns.get(f.name), f.type, count) for f in arrow], schema=arrow)


def _array(given: Any, kind: pa.DataType, count: int) -> pa.Array:
    if given is None:
        return pa.nulls(count, kind)
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given.cast(kind)
    if isinstance(given, np.ndarray | list | tuple):
        return pa.array(given, kind)
    return pa.repeat(pa.scalar(given, kind), count)


def told(values: Ids | Longs) -> pa.Array:
    """Integers, null where nobody told."""
    return pa.array(values, mask=values == NOT_TOLD)


def texts(numbers: Ids | Longs, known: Sequence[str | None]) -> pa.Array:
    """Texts by their numbers; null for -1."""
    return pa.array(known, pa.string()).take(pa.array(numbers, mask=numbers < 0))
