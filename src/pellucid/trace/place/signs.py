"""Timeline → what each step shows of its batch: tokens by the lookup of embeddings, requests by the head.

    lookup   [[151936, 2048], [8000]]        8000 tokens         a weight, and numbers of its rows
             [[151936, 2048], [8, 1000]]     8 sequences of 1000
    head     [[25, 2048], [151936, 2048]]    25 rows             a product with as many columns as the lookup has rows
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from pellucid.trace.place.lookups import Dims, Lookup, Lookups, dims_of, is_lookup
from pellucid.trace.place.phases import Signs
from pellucid.trace.timeline import Longs, Timeline

MOST_RANKS = 64         # chosen: a head may be cut into so many columns


def signs(
    timeline: Timeline, step_rows: Sequence[Longs], lookups: Lookups, hint: Sequence[str],
    graphs: Sequence[str | None],
) -> list[Signs]:  # fmt: skip
    """`step_rows`: kernels of each step; `hint`: the phase a kernel is made for, "" for any, by row of kernels."""
    known = Counter(told.vocabulary for told in lookups.told if told)
    vocabulary = known.most_common(1)[0][0] if known else 0
    of_kernel = dict(zip(lookups.kernels.tolist(), lookups.told, strict=True))
    out = []
    for rows, graph in zip(step_rows, graphs, strict=True):
        looked_up = next((told for r in rows.tolist() if (told := of_kernel.get(r))), None)
        out.append(_signs(timeline, rows, looked_up, vocabulary, hint, graph))
    return out


def _signs(
    timeline: Timeline, rows: Longs, looked_up: Lookup | None, vocabulary: int, hint: Sequence[str], graph: str | None
) -> Signs:
    shape = looked_up.shape if looked_up else ()
    hints: dict[str, int] = defaultdict(int)
    for row, time in zip(rows.tolist(), timeline.kernels.duration_ns[rows].tolist(), strict=True):
        if hint[row]:
            hints[hint[row]] += time
    requests = shape[0] if len(shape) == 2 else _sampled_rows(timeline, rows, vocabulary)
    return Signs(
        tokens=int(np.prod(shape)) if shape else None, requests=requests,
        sequence_tokens=shape[1] if len(shape) == 2 else None, hints=hints, graph=graph,
    )  # fmt: skip


def _sampled_rows(timeline: Timeline, rows: Longs, vocabulary: int) -> int | None:
    """Rows of the product with the head, of the last one in the step."""
    host = timeline.host
    ops = np.unique(timeline.kernels.op[rows])
    ops = ops[ops >= 0]
    for op in ops[::-1].tolist():
        if host.shapes[op] >= 0 and not is_lookup(timeline.names[host.name[op]]):
            found = _rows_of_head(dims_of(timeline.texts[host.shapes[op]]), vocabulary)
            if found is not None:
                return found
    return None


def _rows_of_head(dims: Dims, vocabulary: int) -> int | None:
    matrices = [d for d in dims if len(d) == 2]
    if len(matrices) < 2 or not vocabulary:
        return None
    (count, inner), other = matrices[0], matrices[1]
    columns = other[1] if other[0] == inner else other[0] if other[1] == inner else 0
    return count if columns and any(columns * n == vocabulary for n in range(1, MOST_RANKS + 1)) else None
