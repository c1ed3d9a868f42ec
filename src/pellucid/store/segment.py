"""Files of a run on disk: sealed Parquet segments and open Arrow tails.

    steps-000000.parquet   sealed, immutable, written under another name and renamed
    steps-000001.arrows    the open tail: schema message, then record batches, no end marker

A tail with the number of a sealed segment is a leftover of a seal that was cut short: the segment counts.
A tail cut anywhere yields its whole batches. Nothing here judges rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.store.schema import Table


@dataclass(frozen=True, slots=True)
class Damaged:
    path: Path
    reason: str


@dataclass(slots=True)
class Files:
    """What a reader finds for one table."""

    segments: list[Path] = field(default_factory=list)
    tails: list[Path] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)


def segment_path(folder: Path, table: str, number: int) -> Path:
    return folder / f"{table}-{number:06d}.parquet"


def tail_path(folder: Path, table: str, number: int) -> Path:
    return folder / f"{table}-{number:06d}.arrows"


def number_of(path: Path) -> int:
    return int(path.stem.rsplit("-", 1)[1])


def find(folder: Path, table: Table) -> Files:
    """The readable files of a table; a segment without a valid footer is reported, not read."""
    files = Files()
    sealed = set()
    for path in sorted(folder.glob(f"{table.name}-[0-9]*.parquet")):
        reason = _footer_fault(path)
        if reason:
            files.damaged.append(Damaged(path, reason))
            continue
        sealed.add(number_of(path))
        files.segments.append(path)
    files.tails = [p for p in sorted(folder.glob(f"{table.name}-[0-9]*.arrows")) if number_of(p) not in sealed]
    return files


def next_number(folder: Path, table: str) -> int:
    taken = [number_of(p) for kind in ("parquet", "arrows") for p in folder.glob(f"{table}-[0-9]*.{kind}")]
    return max(taken, default=-1) + 1


def read_tail(path: Path, schema: pa.Schema) -> tuple[pa.Table, str]:
    """The whole batches of a tail and, if it ends in a torn batch, why it stopped ("" at a clean end)."""
    batches: list[pa.RecordBatch] = []
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            while True:
                batches.append(stream.read_next_batch())
    except StopIteration:
        fault = ""
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        fault = str(error).splitlines()[0]
    return conform(pa.Table.from_batches(batches) if batches else schema.empty_table(), schema), fault


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows written under an older schema: unknown columns are dropped, absent ones are null."""
    columns = [
        table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(len(table), f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def seal(folder: Path, table: Table, number: int) -> Path | None:
    """Tail → segment, atomically. Returns the segment, None if the tail held no row. Raises OSError on a full disk."""
    tail, target = tail_path(folder, table.name, number), segment_path(folder, table.name, number)
    rows, _ = read_tail(tail, table.arrow())
    if rows.num_rows:
        tmp = target.with_suffix(".tmp")
        try:
            pq.write_table(rows, tmp, compression="zstd", write_page_checksum=True)
            _sync(tmp)
            os.replace(tmp, target)
        except OSError:
            tmp.unlink(missing_ok=True)
            raise
    tail.unlink()
    return target if rows.num_rows else None


def body_fault(path: Path) -> str:
    """Reads a whole segment with its page checksums: "" or what is wrong. Slow; for when a query failed."""
    try:
        pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).splitlines()[0]
    return ""


def _footer_fault(path: Path) -> str:
    try:
        pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).splitlines()[0]
    return ""


def _sync(path: Path) -> None:
    with path.open("rb") as f:
        os.fsync(f.fileno())
