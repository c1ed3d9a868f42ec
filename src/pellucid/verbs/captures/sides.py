"""What a user names as one side of a comparison → its tables, and what is said of it.

    side(home, "example")            all captures of a run together
    side(home, "20261130-0915:c3f0") one capture of a run; `:c3f0` of the newest run
    side(home, "rank0.json.gz")      a trace file: read into memory, no run is made
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.store.read import RunReader, open_run, view_sql
from pellucid.store.schema import CAPTURE_STEPS, CAPTURES, KERNELS
from pellucid.trace.load import load
from pellucid.trace.rows.columns import Identity
from pellucid.verbs.runs import run_folder

VIEWS = ("kernel_step_names", "kernel_places")
Row = dict[str, Any]

PHASES = """
    SELECT phase, count(*) AS steps_count, avg(prefill_requests_count) AS prefill_requests_count,
           avg(prefill_tokens) AS prefill_tokens, avg(decode_requests_count) AS decode_requests_count,
           string_agg(DISTINCT graph, '+' ORDER BY graph) AS graph,
           avg(end_ns - start_ns) AS took_ns, var_samp(end_ns - start_ns) AS took_variance,
           avg(end_ns - start_ns - busy_ns) AS idle_ns, var_samp(end_ns - start_ns - busy_ns) AS idle_variance,
           count(idle_before_ns) AS before_count, avg(idle_before_ns) AS before_ns,
           var_samp(idle_before_ns) AS before_variance
    FROM capture_steps WHERE list_contains($captures, capture) GROUP BY phase"""
KERNELS_SEEN = """
    SELECT count(*) AS rows_count, count(duration_ns) AS timed_count,
           sum(count) FILTER (kind IN ('kernel', 'op'))::BIGINT AS kernels_count,
           sum(duration_ns) FILTER (kind IN ('kernel', 'op'))::BIGINT AS kernels_ns,
           sum(duration_ns) FILTER (kind IN ('kernel', 'op') AND step IS NULL)::BIGINT AS outside_ns
    FROM kernels WHERE list_contains($captures, capture)"""


@dataclass(frozen=True, slots=True)
class Side:
    asked: str                      # as the user named it
    run: RunReader
    captures: tuple[Row, ...]       # rows of `captures`, those that count here
    phases: dict[str | None, Row]   # of its steps: how many, their batches, how their time passed
    seen: Row                       # kernels and their time
    notes: tuple[str, ...] = field(default=())

    @property
    def ids(self) -> list[str]:
        return sorted({c["capture"] for c in self.captures})

    def told(self, column: str) -> str | None:
        """What its captures say of themselves, all of them together; None where none does."""
        return " + ".join(sorted({str(c[column]) for c in self.captures if c[column] is not None})) or None

    def json(self) -> Row:
        names = ("steps_count", "prefill_requests_count", "prefill_tokens", "decode_requests_count", "graph")
        return {
            "asked": self.asked, "run_id": self.run.folder.name if self.run.folder.is_dir() else None,
            "captures": self.ids, "files": sorted({c["file"] for c in self.captures if c["file"]}),
            **{name: self.told(name) for name in ("format", "device_name", "model")},
            "devices_count": sum(c["devices_count"] or 0 for c in self.captures) or None,
            "kernels_count": self.seen["kernels_count"], "kernels_ns": self.seen["kernels_ns"],
            "phases": [{"phase": p, **{n: row[n] for n in names}} for p, row in self.phases.items()],
        }  # fmt: skip


def side(home: Path, asked: str) -> Side:
    """Raises AskedWrongly where nothing is called so, CannotAnswer where it has no kernel or none with a time."""
    path = Path(asked)
    if path.is_file():
        return _side(asked, _in_memory(path), None)
    name, colon, capture = asked.rpartition(":")
    if not colon or path.is_dir():
        name, capture = asked, ""
    return _side(asked, open_run(run_folder(home, name or None)), capture or None)


def _in_memory(path: Path) -> RunReader:
    tables = load(path, Identity("file", path.name)).tables
    reader = RunReader(path, duckdb.connect(":memory:", config={"threads": 2}))
    for schema in (CAPTURES, CAPTURE_STEPS, KERNELS):
        table = tables.get(schema.name)
        reader.db.register(schema.name, pa.table(schema.arrow().empty_table()) if table is None else table)
    for name in VIEWS:
        reader.db.execute(view_sql(name))
    return reader


def _side(asked: str, run: RunReader, capture: str | None) -> Side:
    captures = run.rows("SELECT * FROM captures ORDER BY capture, process")
    if capture is not None:
        captures = _only(asked, captures, capture)
    ids = {"captures": sorted({c["capture"] for c in captures})}
    seen = run.one(KERNELS_SEEN, ids)
    if not seen["rows_count"]:
        raise CannotAnswer(f"{asked} has no kernels: nothing was captured. Try: pellucid profile on a running engine, or pellucid load TRACE")  # noqa: E501
    if not seen["timed_count"]:
        raise CannotAnswer(f"{asked} has {seen['rows_count']:,} kernels and no time of any: it tells shares only")
    rows = {row.pop("phase"): row for row in run.rows(PHASES, ids)}
    phases = {p: rows[p] for p in ("decode", "prefill", "mixed", None) if p in rows}
    notes = [f"{d.path.name} is damaged and left out: {d.reason}" for d in run.damaged]
    notes += [f"{c['file'] or c['process']}: {c['damage']}" for c in captures if c["damage"]]
    return Side(asked, run, tuple(captures), phases, seen, tuple(notes))


def _only(asked: str, captures: list[Row], wanted: str) -> list[Row]:
    ids = sorted({c["capture"] for c in captures})
    hits = [i for i in ids if i == wanted] or [i for i in ids if i.startswith(wanted)]
    if len(hits) != 1:
        there = f"there are {', '.join(ids)}" if ids else "the run has none"
        raise AskedWrongly(f"{asked}: {len(hits) or 'no'} captures are called {wanted!r}; {there}")
    return [c for c in captures if c["capture"] == hits[0]]
