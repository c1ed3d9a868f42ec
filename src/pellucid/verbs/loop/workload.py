"""`pellucid workload`: traces of others or a run → a workload file, and what such a file is like.

    import_files([Path("trace.jsonl.gz")], Out(Path("w.parquet")), home, Draw()) → Made
    synthesise(Path("w.parquet"), Vocabulary(151_643), seed=0) → {"arrival_ns": 0, …, "prompt_token_ids": […]} a line
    show(Path("w.parquet")).json() → {"requests_count": 12031, "arrivals": {"rate_per_s": 3.4, "gap_cv": null, …}, …}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from pellucid.store.read import open_run
from pellucid.verbs.export.write import check
from pellucid.verbs.export.write import write as write_pieces
from pellucid.verbs.site import site_key
from pellucid.workload.file import About, Workload, read, write
from pellucid.workload.prompts import Vocabulary, prompts
from pellucid.workload.read_any import read_any
from pellucid.workload.recorded import recorded
from pellucid.workload.servegen import Draw
from pellucid.workload.statistics import QUANTILES, Arrivals, Lengths, Sharing, Statistics, statistics

__all__ = ["Arrivals", "Draw", "Lengths", "Made", "Out", "Sharing", "Shown", "Statistics", "Vocabulary",
           "import_files", "record_run", "show", "synthesise", "write_prompts"]  # fmt: skip
# What is told of a request beside its prompt; what is null is left out.
TOLD = ["arrival_ns", "output_tokens", "task", "session", "response_format", "think_ns", "temperature", "top_p",
        "max_tokens", "top_k", "seeded"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Out:
    path: Path
    force: bool = False          # write over a file that is there


@dataclass(frozen=True, slots=True)
class Made:
    path: Path
    size_bytes: int
    about: About

    def json(self) -> dict[str, Any]:
        return {"file": str(self.path), "size_bytes": self.size_bytes, **msgspec.to_builtins(self.about)}


@dataclass(frozen=True, slots=True)
class Shown:
    about: About
    statistics: Statistics
    null_counts: dict[str, int]          # column → requests without a value, where some have one

    def json(self) -> dict[str, Any]:
        said = statistics_named(self.statistics)
        return {"about": msgspec.to_builtins(self.about), **said, "null_counts": self.null_counts}


def import_files(paths: Sequence[Path], out: Out, home: Path, draw: Draw) -> Made:
    """`home`: whose key hashes token ids. Raises AskedWrongly, also where `out` is there; Failed on a full disk."""
    check(out.path, out.force)
    return made(read_any(paths, site_key(home), draw), out)


def record_run(folder: Path, out: Out) -> Made:
    """Raises AskedWrongly where `out` is there, CannotAnswer where the run has no request."""
    check(out.path, out.force)
    return made(recorded(open_run(folder), folder.name), out)


def synthesise(path: Path, vocabulary: Vocabulary, seed: int, limit: int | None = None) -> Iterator[bytes]:
    """JSON lines, one for each of the first `limit` requests (None: all): its arrival and lengths, and a prompt's ids.

    Raises AskedWrongly where it is no workload.
    """
    workload = read(path)
    requests = workload.requests.slice(0, limit)
    rows = (row for batch in requests.select(TOLD).to_batches(max_chunksize=1024) for row in batch.to_pylist())
    for row, tokens in zip(rows, prompts(Workload(workload.about, requests), vocabulary, seed), strict=True):
        said = {name: value for name, value in row.items() if value is not None}
        yield msgspec.json.encode({**said, "prompt_token_ids": tokens.tolist()}) + b"\n"


def write_prompts(path: Path, out: Out, vocabulary: Vocabulary, seed: int, limit: int | None = None) -> int:
    """Bytes on the disk, packed where the name ends in .gz. Raises AskedWrongly as `synthesise`, Failed."""
    return write_pieces(synthesise(path, vocabulary, seed, limit), out.path, out.force)


def show(path: Path) -> Shown:
    """Raises AskedWrongly where it is no workload."""
    workload = read(path)
    count = len(workload)
    nulls = {n: int(workload.requests.column(n).null_count) for n in workload.requests.column_names}
    return Shown(workload.about, statistics(workload), {n: c for n, c in nulls.items() if 0 < c < count})


def made(workload: Workload, out: Out) -> Made:
    """Writes it."""
    return Made(out.path, write(workload, out.path), workload.about)


def statistics_named(found: Statistics) -> dict[str, Any]:
    """JSON-ready."""
    said: dict[str, Any] = _named(asdict(found))
    return said


def _named(value: Any) -> Any:
    """Quantiles by their names, and the tuple of tasks as objects."""
    if isinstance(value, dict):
        quantiles = {"quantiles_tokens", "think_ns"}
        return {k: quantiles_named(v) if k in quantiles else tasks_named(v) if k == "tasks" else _named(v)
                for k, v in value.items()}  # fmt: skip
    return value


def quantiles_named(values: Sequence[int] | None) -> dict[str, int] | None:
    """(1, 2, 3, 4) → {"p10": 1, "p50": 2, "p90": 3, "p99": 4}."""
    return None if values is None else {f"p{q * 100:.0f}": v for q, v in zip(QUANTILES, values, strict=True)}


def tasks_named(pairs: Sequence[tuple[str | None, int]]) -> list[dict[str, Any]]:
    return [{"task": task, "requests_count": count} for task, count in pairs]
