"""A Parquet file with a row for each execution, as nsys-jax writes them → a Timeline.

    Start     Duration  Name    Device  Stream  GridX … | Start (ns), Duration (ns), Strm, GrdX …

Parquet files of the same tool that have no kernels (ranges of the host, facts about threads) are refused in words.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pellucid.core.errors import AskedWrongly
from pellucid.trace.link import linked
from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import (
    KERNEL,
    MEMCPY,
    MEMSET,
    NOT_TOLD,
    About,
    Damage,
    Longs,
    Numbered,
    Timeline,
    host_of,
    kernels_of,
)

FORMAT = "nsys_csv"
MAGIC = b"PAR1"
TITLES = {
    "name": ("Name", "Kernel Name", "KernelName"), "start_ns": ("Start", "Start (ns)"),
    "duration_ns": ("Duration", "Duration (ns)"), "device": ("DeviceId", "Device"),
    "stream": ("Strm", "Stream", "StreamId"),
    "correlation": ("CorrId", "CorrelationId"),
}  # fmt: skip
ON_DEVICE = {"CorrId", "CorrelationId", "GrdX", "GridX", "Strm", "Stream", "StreamId"}
REFUSED = (
    ({"Projected Start", "NumGPUOps"}, "ranges of the host projected on the device: it names no kernels"),
    ({"RangeStack"}, "ranges of the host: it has no kernels"),
    ({"Priority", "TID"}, "a list of threads: it has no kernels, and its names are not for a report"),
    ({"nameEnum", "value"}, "facts about the machine and its environment: it has no kernels"),
)


def read(path: Path) -> Timeline:
    """Raises AskedWrongly where the file has no kernels or is damaged."""
    try:
        with pq.ParquetFile(path) as file:
            titles = set(file.schema_arrow.names)
            if reason := refusal(titles):
                raise AskedWrongly(f"{path} is {reason}. Try: nsys export --type sqlite REPORT.nsys-rep")
            chosen = {column: title for column, known in TITLES.items() for title in known if title in titles}
            table = file.read(columns=list(chosen.values())).rename_columns(list(chosen))
    except (pa.ArrowException, OSError) as error:
        raise AskedWrongly(f"cannot read {path}: {str(error).splitlines()[0]}") from error
    return _timeline(path, table)


def refusal(titles: set[str]) -> str | None:
    """Why a file with these columns is not loaded; None where it is."""
    for known, reason in REFUSED:
        if known <= titles:
            return reason
    named = all(titles & {*TITLES[column]} for column in ("name", "start_ns", "duration_ns"))
    return None if named and titles & ON_DEVICE else "a table without executions of kernels"


def _timeline(path: Path, table: pa.Table) -> Timeline:
    damage, redactor, names = Damage(), Redactor(), Numbered[str]()
    columns: dict[str, Longs] = {name: _longs(table[name]) for name in table.column_names if name != "name"}
    texts = pc.cast(table["name"], pa.string()).combine_chunks().dictionary_encode()
    known = np.array([names[str(text)] for text in texts.dictionary.to_pylist()] or [0], np.int64)
    columns["name"] = known[texts.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    kinds = np.array([MEMCPY if "memcpy" in n.lower() else MEMSET if "memset" in n.lower() else KERNEL for n in names])
    columns["kind"] = kinds[columns["name"]] if len(names) else columns["name"]
    good = (columns["duration_ns"] >= 0) & (columns["start_ns"] != NOT_TOLD)
    damage.lost("a row has no time that can be read", int((~good).sum()))
    none = {name: np.zeros(0, np.int64) for name in ("name", "kind", "start_ns", "duration_ns")}
    kernels, host = linked(kernels_of({name: values[good] for name, values in columns.items()}), host_of(none))
    about = About(format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, damaged_count=damage.count,
                  damage=damage.sentences(), redacted_count=redactor.count)  # fmt: skip
    return Timeline(about, kernels, host, tuple(redactor.text(n) for n in names), (), (), ())


def _longs(column: pa.ChunkedArray) -> Longs:
    """Whole numbers; what is none is not told."""
    try:
        return np.asarray(pc.cast(column, pa.int64(), safe=False).fill_null(NOT_TOLD).to_numpy(), np.int64)
    except pa.ArrowException:
        return np.full(len(column), NOT_TOLD, np.int64)
