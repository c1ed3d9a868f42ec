"""Steps → minutes: what outlives the rows of `steps` when retention deletes them.

    steps-000007.parquet   200,000 steps   →   step_minutes-000007.parquet   about 70 rows

A minute's segment has the number of the steps it sums up and is written before those are deleted. While both are there
the steps count and the minutes do not, so a kill in between neither loses nor doubles a step, and the next recorder
finds the minutes written and deletes. `step_runs` leave nothing of their own: what they add up to is in `steps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pellucid.core.units import S_NS
from pellucid.store.column import PROVENANCE
from pellucid.store.schema import STEP_MINUTES, STEPS
from pellucid.store.segment import checksums, conform, file_checksum, misfit, number_of, segment_path, write_segment

MINUTE_NS = 60 * S_NS
BATCH_STEPS = 50_000      # at a time, so that the recorder's memory stays flat
KEYS = [*(c.name for c in PROVENANCE), "minute_ns"]
SUMS = (
    "schedule_ns", "execute_ns", "update_ns", "host_gap_ns", "idle_ns", "worker_ns", "device_ns", "probe_ns",
    "scheduled_tokens", "prefill_tokens", "decode_tokens", "recomputed_tokens", "draft_tokens", "accepted_tokens",
    "discarded_tokens", "output_tokens", "preempted_count", "preempted_tokens",
)  # fmt: skip
MAXIMA = {
    "running_max_count": "running_count", "waiting_max_count": "waiting_count",
    "kv_used_max_blocks_count": "kv_used_blocks_count", "kv_total_blocks_count": "kv_total_blocks_count",
    "sequence_cap_count": "sequence_cap_count", "token_budget_tokens": "token_budget_tokens",
}  # fmt: skip
WEIGHTED = {
    "running_requests_ns": "running_count", "waiting_requests_ns": "waiting_count",
    "kv_used_blocks_ns": "kv_used_blocks_count",
}  # fmt: skip
WHILE = {name: name.replace("_ns", "_count") for name in (
    "waiting_ns", "waiting_sequence_cap_ns", "waiting_token_budget_ns", "waiting_kv_ns", "waiting_deferred_ns",
)}  # fmt: skip
READ = [n for n in STEPS.names() if n in {
    *KEYS, "start_ns", "end_ns", *SUMS, *MAXIMA.values(), *WEIGHTED.values(), *WHILE.values(),
}]  # fmt: skip


def keep(folder: Path, steps: Path) -> None:
    """Writes the minutes of a segment of `steps`, once. Nothing is kept of one that does not read: no reader counts it
    either. Raises OSError when there is no room; then the steps must stay."""
    target = segment_path(folder, STEP_MINUTES.name, number_of(steps))
    if target.exists():
        return
    try:
        noted = checksums(folder).get(steps.name)
        if noted is not None and noted != file_checksum(steps):
            return
        tables = [minutes(t) for t in _read(steps)]
    except (pa.ArrowInvalid, OSError):
        return
    if tables:
        write_segment(folder, target, pa.concat_tables(tables))


def _read(steps: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(steps) as file:
        names = file.schema_arrow.names
        if misfit(names, STEPS.names()):
            return
        for batch in file.iter_batches(BATCH_STEPS, columns=[n for n in READ if n in names]):
            yield conform(pa.Table.from_batches([batch]), STEPS.arrow())


def minutes(steps: pa.Table) -> pa.Table:
    """Rows of `steps` → rows of `step_minutes`. A sum is null where no step of the minute had a value."""
    step_ns = pc.subtract(steps["end_ns"], steps["start_ns"])
    columns = {name: steps[name] for name in (*KEYS[:-1], "start_ns", "end_ns", *SUMS)}
    columns |= {name: steps[source] for name, source in MAXIMA.items()}
    columns |= {name: pc.multiply(step_ns, steps[source]) for name, source in WEIGHTED.items()}
    columns |= {name: pc.if_else(pc.greater(steps[source], 0), step_ns, 0) for name, source in WHILE.items()}
    columns["minute_ns"] = pc.multiply(pc.divide(steps["start_ns"], MINUTE_NS), MINUTE_NS)
    columns["busy_ns"] = columns["step_max_ns"] = step_ns
    columns["split_steps_count"] = steps["prefill_tokens"]
    how = dict.fromkeys(("busy_ns", *SUMS, *WEIGHTED, *WHILE), "sum") | dict.fromkeys(("step_max_ns", *MAXIMA), "max")
    how |= {"start_ns": "min", "end_ns": "max", "split_steps_count": "count"}
    grouped = pa.table(columns).group_by(KEYS, use_threads=False).aggregate(
        [*how.items(), ([], "count_all")]
    )  # fmt: skip
    names = {f"{name}_{kind}": name for name, kind in how.items()} | {"count_all": "steps_count"}
    return conform(grouped.rename_columns([names.get(n, n) for n in grouped.column_names]), STEP_MINUTES.arrow())
