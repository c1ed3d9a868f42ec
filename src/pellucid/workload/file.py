"""The workload file: one Parquet file, a row for each request in order of arrival, and what is known of the source.

    arrival_ns  prompt_tokens  output_tokens  blocks       block_tokens  task  session  …
    0           6758           500            [0, 1, 2 …]  512           -     -
    3000000000  7322           490            [0, 14, …]   512           -     -

A number in `blocks` stands for the tokens of its block and of all blocks before it. So two prompts begin alike for as
long as their numbers are equal, and all prompts together are a tree. The last block may be begun only.

Metadata, one JSON under the key `pellucid.workload`: `About`. Moments count from the first arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.core.errors import AskedWrongly
from pellucid.core.whole import replacing
from pellucid.store.column import F64, STR, Column, columns

VERSION = 2
SINCE_2 = ("top_k", "seeded")      # columns that files of version 1 do not have
KEY = b"pellucid.workload"
COLUMNS: tuple[Column, ...] = (
    *columns("""
        arrival_ns: since the first request of the workload arrived; null where the source has no times
        prompt_tokens: prompt length; never null
        output_tokens: answer length; null where it is not known
        """),
    Column("blocks", pa.list_(pa.int64()), "prefix of the prompt, a number for each block from the first on; null if not seen"),  # noqa: E501
    *columns("block_tokens: tokens a number in blocks stands for; null without blocks"),
    *columns("""
        task: traffic class
        session: conversation it belongs to; its turns are in order
        response_format: structured-output kind asked for, or text
        seeded: yes where the client gave a seed of its own, no where it did not
        """, STR),
    *columns("think_ns: from the end of the session's previous answer to this request; null for a first turn"),
    *columns("""
        temperature: of sampling, as the client asked, or as the engine did where that was recorded
        top_p: of sampling, likewise
        """, F64),
    *columns("""
        max_tokens: output limit the client asked for
        top_k: likeliest tokens to sample from, likewise; 0 for all
        """),
)  # fmt: skip
SCHEMA = pa.schema([pa.field(c.name, c.type) for c in COLUMNS])


class About(msgspec.Struct, frozen=True):
    """Where a workload comes from, and what it cannot tell."""

    source: str                        # names of files, or of the run
    format: str
    seed: int | None = None            # what was drawn was drawn with it; null where nothing was drawn
    requests_count: int = 0            # in the file: pages have checksums, its footer has none
    read_count: int = 0                # requests, or lines, in the source
    left_out: dict[str, int] = {}      # reason → how many of them are not here
    missing: dict[str, str] = {}       # column without any value → why, and what is blind for it
    notes: tuple[str, ...] = ()        # what else a reader of its numbers has to know
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Workload:
    about: About
    requests: pa.Table                 # of SCHEMA

    def __len__(self) -> int:
        return int(self.requests.num_rows)


def write(workload: Workload, path: Path) -> int:
    """Bytes on the disk: the whole file or none. Raises Failed where the disk refuses."""
    metadata = {KEY: msgspec.json.encode(workload.about)}
    table = workload.requests.cast(SCHEMA).replace_schema_metadata(metadata)
    with replacing(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)
    return path.stat().st_size


def read(path: Path) -> Workload:
    """Raises AskedWrongly where the file is not there, is no workload, or is damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            about = _about(path, file.schema_arrow)
            table = _whole(file.read(columns=[n for n in SCHEMA.names if n in file.schema_arrow.names]))
    except FileNotFoundError as error:
        raise AskedWrongly(f"{path}: no such file") from error
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AskedWrongly(f"{path} is no workload, or a damaged one: {reason}. {TRY}") from error
    if len(table) != about.requests_count:
        raise AskedWrongly(f"{path} is damaged: {len(table):,} of {about.requests_count:,} requests are in it. {TRY}")
    if table.column("prompt_tokens").null_count:
        raise AskedWrongly(f"{path}: a request in it has no prompt length. {TRY}")
    return Workload(about, table)


def _whole(table: pa.Table) -> pa.Table:
    """With the columns that its version did not have: nobody saw them."""
    for place, name in enumerate(SCHEMA.names):
        if name not in table.column_names:
            table = table.add_column(place, SCHEMA.field(name), pa.nulls(len(table), SCHEMA.field(name).type))
    return table


TRY = "Try: pellucid workload import FILE OUT"


def _about(path: Path, schema: pa.Schema) -> About:
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        raise AskedWrongly(f"{path} is Parquet, but no workload: it does not say where it comes from. {TRY}")
    try:
        about = msgspec.json.decode(text, type=About)
    except msgspec.MsgspecError as error:
        raise AskedWrongly(f"{path}: what it says of its source does not read: {error}. {TRY}") from error
    if not 1 <= about.version <= VERSION:
        known = f"this program reads 1 to {VERSION}"
        raise AskedWrongly(f"{path} is a workload of version {about.version}; {known}. {TRY}")
    wanted = [f for f in SCHEMA if about.version >= 2 or f.name not in SINCE_2]
    if odd := [f.name for f in wanted if f.name not in schema.names or schema.field(f.name).type != f.type]:
        raise AskedWrongly(f"{path} is a workload without {', '.join(odd)} as it should be. {TRY}")
    return about
