"""A file → which loader reads it, by its beginning; its name helps only with what no loader reads.

    load(Path("rank0.pt.trace.json.gz"))   → Timeline
    load(Path("cuda_gpu_kern_sum.csv"))    → KernelTable
    load(Path("report.nsys-rep"))          raises AskedWrongly, and says how to export it

Files that look like traces and hold no kernels are known too, so that the answer is what they are.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.trace.ncu import read as ncu_read
from pellucid.trace.nsys import reports, sqlite
from pellucid.trace.nsys.tables import SQLITE
from pellucid.trace.tables import averages, events, parquet, sums
from pellucid.trace.tables.text import XZ_MAGIC
from pellucid.trace.timeline import Trace
from pellucid.trace.torch_profiler import read as torch_read

HEAD_BYTES = 256 * 1024
USTAR = slice(257, 262)
# What a torch profiler writes before its events, in any order; a file with many ranks lists them for 256 kB and more.
TORCH_KEYS = re.compile(rb'"(?:traceEvents|deviceProperties|distributedInfo|cupti_version|roctracer_version)"\s*:')
EVENT = re.compile(rb'\s*\[\s*(?:\{|$|\])')
NUMBERS = re.compile(rb"\s*\[\s*\[[\s\d,.\[\]+-]")
EXECUTION_TRACE = re.compile(rb'"(?:rf_id|op_schema|ctrl_deps|fw_parent|input_shapes)"\s*:')
SQL_EXPORT = "Try: nsys export --type sqlite {name}"
CSV_EXPORT = "Try: ncu --import {name} --page details --csv > kernels.csv"
PROFILE = "Try: record it with torch.profiler and export_chrome_trace"
SUFFIXES = (
    ((".nsys-rep", ".qdrep", ".qdstrm"), f"a report of Nsight Systems in its own format. {SQL_EXPORT}"),
    ((".ncu-rep", ".nsight-cuprof-report"), f"a report of Nsight Compute in its own format. {CSV_EXPORT}"),
    ((".pb", ".xplane.pb"), f"a protocol buffer, which no loader reads. {PROFILE}"),
)
MAGIC = (
    (b"NVR\0", f"a report of Nsight Compute in its own format. {CSV_EXPORT}"),
    (b"PK\x03\x04", "a zip archive. Try: unpack it and load the trace in it"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd. Try: unpack it first"),
    (b"BZh", "packed with bzip2. Try: unpack it first"),
    (b"\x80\x02", "a Python pickle, which is never loaded: it can run code"),
    (b"\x80\x04", "a Python pickle, which is never loaded: it can run code"),
    (b"\x80\x05", "a Python pickle, which is never loaded: it can run code"),
)


@dataclass(frozen=True, slots=True)
class Loader:
    format: str                         # as in captures
    read: Callable[[Path], Trace]       # raises AskedWrongly


TORCH = Loader(torch_read.FORMAT, torch_read.read)
SQLITE_EXPORT = Loader(sqlite.FORMAT, sqlite.read)
PARQUET = Loader(parquet.FORMAT, parquet.read)
REPORT = Loader(reports.FORMAT, reports.read)
PAGE = Loader(ncu_read.FORMAT, ncu_read.read)
EVENTS = Loader(events.FORMAT, events.read)
SUMS = Loader(sums.FORMAT, sums.read)
AVERAGES = Loader(averages.FORMAT, averages.read)


def load(path: Path) -> Trace:
    """Raises AskedWrongly where the file cannot be read, or is none of the kinds that hold kernels."""
    return detect(path).read(path)


def detect(path: Path) -> Loader:
    """Raises AskedWrongly."""
    try:
        head = content(path, HEAD_BYTES)
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror or error}") from error
    if reason := refusal(head, path.name):
        raise AskedWrongly(f"{path} is {reason}")
    found = loader(head)
    if not found:
        raise AskedWrongly(f"{path} is no trace of kernels that we know. Known: traces of torch.profiler, exports of "
                           f"nsys (SQLite, CSV), CSV pages of ncu, tables of kernels")  # fmt: skip
    return found


def loader(head: bytes) -> Loader | None:
    """Which loader reads a file that begins so, unpacked; None where none does."""
    if head.startswith(SQLITE):
        return SQLITE_EXPORT
    if head.startswith(parquet.MAGIC):
        return PARQUET
    if head[USTAR] == b"ustar":
        return TORCH
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return TORCH if TORCH_KEYS.search(head) else None
    if start.startswith(b"["):
        return TORCH if EVENT.match(start) and b'"ph"' in start else None
    return _table(_text(head))


def _table(text: str) -> Loader | None:
    lines = text.splitlines()
    if not lines or "\0" in text:
        return None
    if events.fits(lines[0]):
        return EVENTS
    if ncu_read.table_at(lines) is not None:
        return PAGE
    if reports.table_at(lines) is not None:
        return REPORT
    if averages.fits(lines):
        return AVERAGES
    return SUMS if sums.fits(lines[0]) else None


def _text(head: bytes) -> str:
    if head.startswith(XZ_MAGIC):
        try:
            head = lzma.LZMADecompressor().decompress(head, HEAD_BYTES)
        except lzma.LZMAError:
            return ""
    return head.decode(errors="replace").removeprefix("\ufeff")


def refusal(head: bytes, name: str = "") -> str | None:
    """What a file is that looks like a trace and is none, and what to do; None for anything else."""
    if not head.strip():
        return "empty"
    for suffixes, reason in SUFFIXES:
        if name.endswith(suffixes):
            return reason.format(name=name)
    for magic, reason in MAGIC:
        if head.startswith(magic):
            return reason.format(name=name or "REPORT")
    start = head.lstrip()
    if start.startswith((b"{", b"[")):
        return _json_refusal(start)
    return _table_refusal(_text(head))


def _json_refusal(start: bytes) -> str | None:
    if NUMBERS.match(start):
        return f"a memory timeline of torch.profiler: it has sizes of allocations and no kernels. {PROFILE}"
    if loader(start):
        return None
    if b'"nodes"' in start and EXECUTION_TRACE.search(start):
        return f"an execution trace of PyTorch: it has operators and their inputs, and no times. {PROFILE}"
    if start.startswith(b"[") and not EVENT.match(start):
        return f"a list that holds no events. {PROFILE}"
    return f"JSON, but no trace: it has no list traceEvents. {PROFILE}"


def _table_refusal(text: str) -> str | None:
    titles = {title.strip().strip('"') for title in text.partition("\n")[0].split(",")}
    if "RangeStack" in titles or {"Range", "Style"} <= titles:
        return f"a report of NVTX ranges of the host: it has no kernels. {SQL_EXPORT.format(name='REPORT.nsys-rep')}"
    return None
