"""Files of a run on disk: sealed Parquet segments and open Arrow tails.

    steps-000000.parquet   sealed, immutable, written under another name and renamed
    steps-000001.arrows    the open tail: schema message, then record batches, no end marker
    checksums.txt          a line for each sealed segment: `steps-000000.parquet 3e2a11ff`, CRC-32 of the whole file

DuckDB does not look at page checksums, and zstd decodes most flipped bits without complaint, so a segment is checked
as a whole before it is read. One without a line (its recorder was killed in between) counts as it is.

A tail with the number of a sealed segment is a leftover of a seal that was cut short: the segment counts.
A tail cut anywhere yields its whole batches. Nothing here judges rows.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.store.schema import TABLES, Table

CHECKSUMS = "checksums.txt"
_CHECKSUM = re.compile(r"(\S+\.parquet) ([0-9a-f]{8})")


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
    """The readable files of a table; a segment without a valid footer, or of another table, is reported, not read.

    Tails are listed first: one that is sealed while we look is then seen twice, never missed. A segment that sums up
    another counts once that one is gone.
    """
    files = Files()
    tails = sorted(folder.glob(f"{table.name}-[0-9]*.arrows"))
    sealed = set()
    for path in sorted(folder.glob(f"{table.name}-[0-9]*.parquet")):
        if table.sums_up and segment_path(folder, table.sums_up, number_of(path)).exists():
            continue
        try:
            reason = _footer_fault(path, table)
        except FileNotFoundError:    # retention took it
            continue
        if reason:
            files.damaged.append(Damaged(path, reason))
            continue
        sealed.add(number_of(path))
        files.segments.append(path)
    files.tails = [p for p in tails if number_of(p) not in sealed]
    return files


def next_number(folder: Path, table: str) -> int:
    """A number no segment had before, expired ones that were summed up included."""
    names = [table, *(t.name for t in TABLES.values() if t.sums_up == table)]
    taken = [number_of(p) for n in names for kind in ("parquet", "arrows") for p in folder.glob(f"{n}-[0-9]*.{kind}")]
    return max(taken, default=-1) + 1


def read_tail(path: Path, schema: pa.Schema) -> tuple[pa.Table, str]:
    """The whole batches of a tail and, if it ends in a torn batch, why it stopped ("" at a clean end). None of another
    table's tail.

    Read, not mapped: the writer takes a half-written batch back, and a mapped page that goes kills the reader.
    """
    batches: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
            if fault := misfit(stream.schema.names, schema.names):
                return conform(schema.empty_table(), schema), fault
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


def misfit(found: Collection[str], own: Collection[str]) -> str:
    """"" or why a file with these columns is not one of the table: a segment of another version of us has mostly the
    table's columns, one of another table, or of somebody else, a few that happen to be called the same."""
    fit = _shared(found, own)
    if fit == len(found) > 0:
        return ""
    other = max(TABLES.values(), key=lambda t: _shared(found, t.names()))
    if fit * 2 >= len(found) > 0 and fit >= _shared(found, other.names()):
        return ""
    whose = f"; they are those of {other.name}" if _shared(found, other.names()) == len(found) > 0 else ""
    return f"its columns are not this table's: {fit} of {len(found)} are{whose}"


def _shared(one: Collection[str], other: Collection[str]) -> int:
    return len(set(one) & set(other))


def seal(folder: Path, table: Table, number: int) -> Path | None:
    """Tail → segment, atomically. Returns the segment, None if there is none. Raises OSError on a full disk.

    A tail that cannot be read to its end stays as it is: readers take what is whole in it.
    """
    tail, target = tail_path(folder, table.name, number), segment_path(folder, table.name, number)
    rows, fault = read_tail(tail, table.arrow())
    if fault:
        return None
    if rows.num_rows:
        write_segment(folder, target, rows)
    tail.unlink()
    return target if rows.num_rows else None


def write_segment(folder: Path, target: Path, rows: pa.Table) -> None:
    """Whole or not at all. Raises OSError on a full disk."""
    tmp = target.with_suffix(".tmp")
    try:
        pq.write_table(rows, tmp, compression="zstd", write_page_checksum=True)
        _sync(tmp)
        checksum = file_checksum(tmp)
        tmp.replace(target)
    except OSError:
        tmp.unlink(missing_ok=True)
        raise
    _note_checksum(folder, target.name, checksum)


def add_segment(folder: Path, table: Table, rows: pa.Table) -> Path:
    """Rows that come in columns, as a segment of their own. For tables no recorder has open. Raises OSError."""
    target = segment_path(folder, table.name, next_number(folder, table.name))
    write_segment(folder, target, conform(rows, table.arrow()))
    return target


def file_checksum(path: Path) -> int:
    """CRC-32 of a file, about 1 GB/s."""
    checksum = 0
    with path.open("rb") as f:
        while chunk := f.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def checksums(folder: Path) -> dict[str, int]:
    """Segment name → checksum noted when it was sealed. A line cut short by a full disk does not count."""
    try:
        text = (folder / CHECKSUMS).read_text(errors="replace")
    except OSError:
        return {}
    lines = (_CHECKSUM.fullmatch(line) for line in text.splitlines())
    return {m[1]: int(m[2], 16) for m in lines if m}


def _note_checksum(folder: Path, name: str, checksum: int) -> None:
    """The newline comes first, so that a line cut short spoils itself only."""
    try:
        with (folder / CHECKSUMS).open("ab", buffering=0) as f:
            f.write(f"\n{name} {checksum:08x}".encode())
    except OSError:
        pass    # the segment itself is whole; it will be read unchecked


def body_fault(path: Path) -> str:
    """Reads a whole segment with its page checksums: "" or what is wrong. Slow; for when a query failed."""
    try:
        pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).splitlines()[0]
    return ""


def _footer_fault(path: Path, table: Table) -> str:
    """"" or what is wrong with a segment's footer. Raises FileNotFoundError when the file has gone."""
    try:
        return misfit(pq.read_metadata(path).schema.names, table.names())
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).splitlines()[0]


def _sync(path: Path) -> None:
    with path.open("rb") as f:
        os.fsync(f.fileno())
