"""The recordings there are. Reads footers and the small tables only, so a hundred long runs list at once.

    runs(home).json() → {"rows": [{"run_id": "20261130-091500-a1b2", "state": "complete", "steps_count": 2301, …}],
                         "units": {"duration_ns": "ns", "size_bytes": "bytes", …}}

state   recording · complete · interrupted (its recorder was killed: what reached the disk is there) ·
        damaged (a segment does not read) · empty (nothing was recorded)
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pellucid
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.lock import held
from pellucid.core.run import EXAMPLES, find_run, read_info, run_folders
from pellucid.core.units import unit_of
from pellucid.store.schema import TABLES
from pellucid.store.segment import Files, find, read_tail

LOCK = "recorder.lock"
PACKAGED = Path(pellucid.__file__).parent / "examples"
# Where the first and the last moment of a run are looked for.
_SPANS = {"steps": ("start_ns", "end_ns"), "step_minutes": ("start_ns", "end_ns"), "host": ("time_ns", "time_ns"),
          "metrics": ("start_ns", "end_ns")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Runs:
    rows: list[dict[str, Any]]

    def json(self) -> dict[str, Any]:
        names = self.rows[0] if self.rows else ()
        return {"rows": self.rows, "units": {n: unit_of(n) for n in names if unit_of(n)}}


def run_folder(home: Path, wanted: str | None) -> Path:
    """The folder of the run a user means. Raises CannotAnswer or AskedWrongly when there is none."""
    folder = find_run(home, wanted, PACKAGED)
    if wanted in EXAMPLES and not (folder / "run.json").exists():
        raise CannotAnswer(f"this installation has no example recording at {folder}. Try: pellucid runs")
    marked = any((folder / name).exists() for name in ("run.json", LOCK))
    if wanted is not None and not marked and not size_bytes(folder):
        raise AskedWrongly(f"{folder} is no recording: no run.json and no segment in it. Try: pellucid runs")
    return folder


def runs(home: Path) -> Runs:
    return Runs([summary(folder) for folder in run_folders(home)])


def summary(folder: Path) -> dict[str, Any]:
    """One run in a row. Null where nothing was seen: a run without steps has no duration, one without a readable file
    of a table no count of its rows. Steps that have expired count."""
    info = read_info(folder)
    files = {name: find(folder, table) for name, table in TABLES.items()}
    first, last = _span(files)
    expired = _expired_count(files["step_minutes"])
    return {
        "run_id": info.run_id,
        "recorded_ns": info.created_ns,
        **_source(files["sources"]),
        "duration_ns": None if first is None or last is None else last - first,
        "requests_count": _count(files["requests"], "requests"),
        "steps_count": _sum(_count(files["steps"], "steps"), expired),
        "expired_steps_count": expired or 0,
        "size_bytes": size_bytes(folder),
        "state": state(folder, files),
        "command": " ".join(info.command),
    }


def state(folder: Path, files: dict[str, Files]) -> str:
    if any(f.damaged for f in files.values()):
        return "damaged"
    if is_recording(folder):
        return "recording"
    if any(f.tails for f in files.values()):
        return "interrupted"
    told = (f.segments for table, f in files.items() if table != "facts")  # the recorder's own facts are in every run
    return "complete" if any(told) else "empty"


def is_recording(folder: Path) -> bool:
    """Whether a recorder holds the run."""
    return held(folder / LOCK)


def _source(files: Files) -> dict[str, str | None]:
    """Engine, version and model, from the first process that knows each."""
    found: dict[str, str | None] = {"engine": None, "engine_version": None, "model": None}
    schema = TABLES["sources"].arrow()
    tables = [pq.read_table(p, columns=list(found)) for p in files.segments]
    tables += [read_tail(p, schema)[0].select(list(found)) for p in files.tails]
    for row in (r for t in tables for r in t.to_pylist()):
        for name, value in row.items():
            found[name] = found[name] or value
    return found


def _count(files: Files, table: str) -> int | None:
    if not files.segments and not files.tails:
        return None
    sealed = [int(pq.read_metadata(p).num_rows) for p in files.segments]
    return sum(sealed) + sum(int(read_tail(p, TABLES[table].arrow())[0].num_rows) for p in files.tails)


def _expired_count(files: Files) -> int | None:
    """Steps that are known by the minute only; None where none has expired."""
    counts = [pq.read_table(p, columns=["steps_count"])["steps_count"].to_pylist() for p in files.segments]
    return sum(n for part in counts for n in part) if counts else None


def _sum(*counts: int | None) -> int | None:
    seen = [n for n in counts if n is not None]
    return sum(seen) if seen else None


def size_bytes(folder: Path) -> int:
    """What the run's rows take on disk. A tail may become a segment, and go, while we look."""
    total = 0
    for path in folder.iterdir():
        if path.suffix in (".parquet", ".arrows"):
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
    return total


def _span(files: dict[str, Files]) -> tuple[int | None, int | None]:
    """First and last moment: from the footers of sealed segments, from the rows of open tails."""
    firsts: list[int] = []
    lasts: list[int] = []
    for table, (first, last) in _SPANS.items():
        for path in files[table].segments:
            metadata = pq.read_metadata(path)
            index = {metadata.schema.column(i).name: i for i in range(metadata.num_columns)}
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                low, high = group.column(index[first]).statistics, group.column(index[last]).statistics
                if low is not None and high is not None and low.has_min_max and high.has_min_max:
                    firsts.append(low.min)
                    lasts.append(high.max)
        for path in files[table].tails:
            rows = read_tail(path, TABLES[table].arrow())[0]
            firsts.extend(v for v in rows.column(first).to_pylist() if v is not None)
            lasts.extend(v for v in rows.column(last).to_pylist() if v is not None)
    return min(firsts, default=None), max(lasts, default=None)


def rings_of(folder: Path, start: str) -> Path:
    """The probe's folder of an engine that is being recorded. Raises CannotAnswer, with how to `start` it."""
    info = read_info(folder)
    rings = Path(info.source) if info.source else None
    if rings is None or not is_recording(folder) or not rings.is_dir():
        raise CannotAnswer(f"run {info.run_id} is not being recorded from an engine's probe now. Try: {start}")
    return rings
