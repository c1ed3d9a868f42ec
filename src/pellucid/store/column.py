"""What a table and a column are. Units are in the names (`core.units.unit_of`)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

I64, F64, STR = pa.int64(), pa.float64(), pa.string()


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    row: str                       # what one row is
    columns: tuple[Column, ...]
    raw: bool = False              # raw tables expire first; the others outlive them
    sums_up: str = ""              # a raw table: each of its segments, once expired, lives on in ours of that number

    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


def columns(text: str, kind: pa.DataType = I64) -> tuple[Column, ...]:
    """`name: meaning` per line → columns of one type."""
    pairs = (line.strip().split(": ", 1) for line in text.strip().splitlines())
    return tuple(Column(name, kind, meaning) for name, meaning in pairs)


PROVENANCE = (
    *columns("""
        deployment: which deployment, from PELLUCID_DEPLOYMENT; "default" if it is not set
        engine: the engine's name
        process: the writing process, role-pid
        """, STR),
    *columns("dp_rank: data-parallel rank of the engine core; null where a process serves several"),
)  # fmt: skip
