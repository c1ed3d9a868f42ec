"""Somebody's trace → a workload. What a file is, its contents say, not its name.

    read_any([Path("trace.jsonl.gz")], key, Draw(seed=0))                           → Workload
    read_any([Path("c-trace.csv.gz"), Path("c-dataset.json.gz")], key, Draw())      a ServeGen client is two files
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.workload.csv_shapes import SHAPES, read_csv, shape_of
from pellucid.workload.documents import aiperf, guidellm, otlp
from pellucid.workload.documents.cut import top_keys
from pellucid.workload.file import Workload
from pellucid.workload.json_lines import KINDS, kind_of, read_json_lines
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Rows
from pellucid.workload.servegen import Draw, is_dataset, is_trace, read_pair

HEAD_BYTES = 64 * 1024
HEAD_LINES = 5         # the first may be damaged
PAIR = "pellucid workload import TRACE.csv DATASET.json OUT"
KNOWN = (*(k.name for k in KINDS), *(s.name for s in SHAPES), aiperf.NAME, guidellm.NAME, otlp.NAME,
         "servegen (trace and dataset together)")
# Keys of a line or file of requests that have their text and no length.
TEXTS = frozenset(("text_input", "messages", "turns", "payload", "prompt", "text"))


def read_any(paths: Sequence[Path], key: bytes, draw: Draw) -> Workload:
    """`key`: of hashes of token ids. Raises AskedWrongly where files are of no kind we know, or hold no request."""
    rows, source = Rows(), " ".join(p.name for p in paths)
    try:
        kind, drawn = _read(paths, key, draw, rows)
    except OSError as error:
        raise AskedWrongly(f"cannot read {error.filename or source}: {error.strerror or error}") from error
    workload = rows.workload(source, kind, draw.seed if drawn else None)
    if not len(workload):
        why = ", ".join(f"{n:,} {reason}" for reason, n in rows.left_out.items()) or "no line after the first"
        raise AskedWrongly(f"{source}, of format {kind}, is without any request: {why}")
    return workload


def _read(paths: Sequence[Path], key: bytes, draw: Draw, rows: Rows) -> tuple[str, bool]:
    """What it was, and whether requests were drawn."""
    if len(paths) == 1:
        return _read_one(paths[0], key, rows), False
    traces = [p for p in paths if is_trace(_first_line(p))]
    datasets = [p for p in paths if is_dataset(content(p, HEAD_BYTES))]
    if len(paths) != 2 or len(traces) != 1 or len(datasets) != 1:
        raise AskedWrongly("several files are one workload only as a ServeGen client: its trace.csv and dataset.json")
    read_pair(traces[0], datasets[0], draw, rows)
    return "servegen", True


def _read_one(path: Path, key: bytes, rows: Rows) -> str:
    head = list(islice(Lines(path), HEAD_LINES))
    first = head[0] if head else ""
    if kind := next(filter(None, map(kind_of, head)), None):
        read_json_lines(Lines(path), kind, key, rows)
        return kind.name
    if shape := shape_of(first):
        read_csv(Lines(path), shape, rows)
        return shape.name
    start = content(path, HEAD_BYTES)
    if name := _read_document(path, start, head, key, rows):
        return name
    if is_trace(first) or is_dataset(start):
        raise AskedWrongly(f"{path} is half of a ServeGen client. Try: {PAIR}")
    if not TEXTS.isdisjoint(top_keys(start)):
        raise AskedWrongly(f"{path} holds texts, not lengths. Try: send them with a client that counts tokens, and "
                           "import its report")  # fmt: skip
    raise AskedWrongly(f"{path} is no trace we know. Known: {', '.join(KNOWN)}")


def _read_document(path: Path, start: bytes, head: list[str], key: bytes, rows: Rows) -> str | None:
    """What it was; None for none of these."""
    if any(map(aiperf.is_record, head)):
        aiperf.read_export(Lines(path), key, rows)
        return aiperf.NAME
    if "benchmarks" in top_keys(start):
        guidellm.read_report(path, key, rows)
        return guidellm.NAME
    if otlp.is_otlp(start, head):
        otlp.read_spans(path, key, rows)
        return otlp.NAME
    return None


def _first_line(path: Path) -> str:
    return next(iter(Lines(path)), "")

