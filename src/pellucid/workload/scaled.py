"""A workload → the same one for a smaller machine: shorter prompts and answers, closer or wider in time.

    scaled(workload, tokens_ratio=0.1, speed=2.0)      a tenth of the tokens, twice the rate

Prompts shrink by the block, so that what they share stays the same share of them: a block of 512 tokens becomes one of
51, and its prompt 51/512 as long. Nothing shrinks below one token; what was zero stays zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import SCHEMA, Workload

Column = Any      # a masked array of float64; numpy's stubs lose the mask in arithmetic
SHORTENED = ("prompt_tokens", "output_tokens", "max_tokens")
TIMED = ("arrival_ns", "think_ns")


def scaled(workload: Workload, tokens_ratio: float = 1.0, speed: float = 1.0) -> Workload:
    """Raises AskedWrongly on what is no factor."""
    for name, value in (("--scale-tokens", tokens_ratio), ("--speed", speed)):
        if not 0 < value < float("inf"):
            raise AskedWrongly(f"{name} {value:g} is no factor above 0")
    table = workload.requests
    if tokens_ratio != 1:
        sizes = _column(table, "block_tokens")
        smaller = np.maximum(1, np.round(sizes * tokens_ratio))
        ratios = np.ma.filled(smaller / sizes, tokens_ratio)
        table = _put(table, "block_tokens", smaller)
        for name in SHORTENED:
            whole = _column(table, name)
            table = _put(table, name, np.maximum(np.sign(whole), np.round(whole * ratios)))
    if speed != 1:
        for name in TIMED:
            table = _put(table, name, np.round(_column(table, name) / speed))
    return Workload(workload.about, table)


def _column(table: pa.Table, name: str) -> Column:
    """Nulls are masked. Exact up to 2^53: a hundred days in ns."""
    values = table.column(name).combine_chunks()
    return np.ma.array(
        values.fill_null(1).to_numpy(zero_copy_only=False).astype(np.float64),
        mask=values.is_null().to_numpy(zero_copy_only=False),
    )


def _put(table: pa.Table, name: str, values: Column) -> pa.Table:
    place = SCHEMA.get_field_index(name)
    whole = pa.array(values.filled(0).astype(np.int64), pa.int64(), mask=np.ma.getmaskarray(values))
    return table.set_column(place, SCHEMA.field(place), whole)
