"""Kernels of some steps of a running engine, into the run that is being recorded. No restart.

    taken = profile(home, None, Wish(steps=10), say, stop)
    taken.capture, taken.steps, taken.longest_gap_ns

    ask ──▶ the workers capture ──▶ their traces ──▶ rows beside the run's own, under the run's step numbers

What a capture cost the engine is recorded with it. The traces themselves go, unless they are to be kept.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pellucid_probe.capture import ASK

from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.units import S_NS
from pellucid.physics.ceilings import Measured
from pellucid.physics.config.read import read as read_config
from pellucid.store.read import RunReader, open_run
from pellucid.store.schema import CAPTURES
from pellucid.trace.load import rows_of
from pellucid.trace.rows.columns import Identity
from pellucid.trace.torch_profiler.read import read
from pellucid.trace.work.model import Model, model_of_geometry
from pellucid.verbs.captures.ask import Answer, Asked, Wish, ask, live_workers, only_one, wait
from pellucid.verbs.captures.batches import batches_of, quiet_of
from pellucid.verbs.captures.ceilings import ceilings_here
from pellucid.verbs.captures.keep import put
from pellucid.verbs.runs import rings_of, run_folder

AHEAD_S = 1.0           # several workers begin with the same step: one that none of them has reached
FLUSH_S = 2.0           # what the recorder may be behind
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a capture, summed over its workers; costs are those of the worker that was held up longest."""

    run_id: str
    capture: str
    steps_count: int
    kernels_count: int
    kernels_ns: int
    start_cost_ns: int
    stop_cost_ns: int
    export_ns: int
    trace_bytes: int
    longest_gap_ns: int | None      # between two tokens while it started, ran and stopped; None where nobody decoded
    usual_gap_ns: int | None        # the longest of as many steps before it
    traces: tuple[Path, ...] = ()   # where they were kept

    def json(self) -> dict[str, Any]:
        row = {name: getattr(self, name) for name in self.__slots__ if name != "traces"}
        return row | {"traces": [str(path) for path in self.traces]}


def profile(
    home: Path, run: str | None, wish: Wish, stop: Callable[[], bool], keep_in: Path | None = None,
    clock: Clock = monotonic_ns,
) -> Taken:  # fmt: skip
    """Raises CannotAnswer where no engine is being recorded or it refuses, Failed where a capture went wrong."""
    folder, own = run_folder(home, run), ceilings_here(home)
    rings = _rings(folder)
    with only_one(rings):
        asked = ask(rings, wish, _first_step(folder, rings), clock)
        try:
            answers = _done(wait(asked, stop, clock))
            _settle(folder, answers, stop, clock)
            return _keep(folder, asked, answers, keep_in, own)
        finally:
            (rings / ASK).unlink(missing_ok=True)
            shutil.rmtree(asked.folder, ignore_errors=True)


def _rings(folder: Path) -> Path:
    return rings_of(folder, "pellucid run -- …, then pellucid profile")


def _first_step(folder: Path, rings: Path) -> int:
    """One worker begins with its next step. Several begin together, a second ahead of the newest step."""
    if len(live_workers(rings)) < 2:
        return 0
    row = open_run(folder).one("""
        SELECT max(step) AS newest, (max(end_ns) - min(start_ns)) / nullif(count(*), 0) AS step_ns
        FROM (SELECT step, start_ns, end_ns FROM steps ORDER BY step DESC LIMIT 50)""")
    if row["newest"] is None or not row["step_ns"]:
        return 0
    return int(row["newest"] + 1 + (AHEAD_S + FLUSH_S) * S_NS / row["step_ns"])


def _done(answers: dict[str, Answer]) -> dict[str, Answer]:
    done = {worker: answer for worker, answer in answers.items() if answer.state == "done"}
    if done:
        return done
    for answer in answers.values():
        if answer.state == "refused":
            raise CannotAnswer(f"the engine refused: {answer.reason}")
        if answer.state == "failed":
            raise Failed(f"the capture failed, the engine goes on: {answer.reason}")
    raise CannotAnswer("the steps asked for did not come: the engine is idle, or its worker ended. Send it traffic, or ask for fewer steps")  # noqa: E501


def _settle(folder: Path, answers: dict[str, Answer], stop: Callable[[], bool], clock: Clock) -> None:
    """Waits until the recorder has the captured steps."""
    wanted, give_up = max(n for a in answers.values() for n in a.steps), clock() + int(2 * FLUSH_S * S_NS)
    while clock() < give_up and not stop():
        if (open_run(folder).one("SELECT max(step) AS newest FROM steps")["newest"] or 0) > wanted:
            return
        time.sleep(0.2)


def _keep(
    folder: Path, asked: Asked, answers: dict[str, Answer], keep_in: Path | None, own: tuple[Measured, ...]
) -> Taken:
    run = open_run(folder)
    gaps, model = _gaps(run, answers), _model(run)
    kept: list[Path] = []
    totals = {"steps_count": 0, "kernels_count": 0, "kernels_ns": 0}
    for worker, answer in answers.items():
        timeline = read(asked.trace(worker))
        shift_ns = (timeline.about.wall_zero_ns or 0) - ((answer.start_wall_ns or 0) - (answer.start_ns or 0))
        who, batches = _identity(run, worker, asked.id), batches_of(run, answer.steps)
        tables = rows_of(timeline, who, model, shift_ns, batches, own, quiet_of(run, answer.steps))
        tables["captures"] = _with_costs(tables["captures"], answer, gaps[0])
        put(folder, tables)
        (capture,) = tables["captures"].to_pylist()
        totals = {"steps_count": max(totals["steps_count"], len(answer.steps)),
                  **{n: totals[n] + (capture[n] or 0) for n in ("kernels_count", "kernels_ns")}}  # fmt: skip
        if keep_in is not None:
            keep_in.mkdir(parents=True, exist_ok=True)
            kept.append(Path(shutil.copyfile(asked.trace(worker), keep_in / f"{asked.id}-{worker}.trace.json")))
    costs = {name: max(getattr(a, name) or 0 for a in answers.values()) for name in ("start_cost_ns", "stop_cost_ns", "export_ns")}  # noqa: E501
    size = sum(a.trace_bytes or 0 for a in answers.values())
    return Taken(folder.name, asked.id, **totals, **costs, trace_bytes=size, longest_gap_ns=gaps[0], usual_gap_ns=gaps[1], traces=tuple(kept))  # noqa: E501


def _identity(run: RunReader, worker: str, capture: str) -> Identity:
    of_worker = "SELECT deployment, engine, dp_rank, model FROM processes WHERE process = $worker"
    nobody: dict[str, Any] = {"deployment": "default", "engine": None, "dp_rank": None, "model": None}
    who = (run.rows(of_worker, {"worker": worker}) or [nobody])[0]
    model = who["model"] or run.one("SELECT any_value(model) AS model FROM processes")["model"]
    return Identity(capture, worker, who["engine"], who["deployment"] or "default", who["dp_rank"], model)


def _model(run: RunReader) -> Model | None:
    """As the engine describes it; None where it does not, or in words not known: shapes in the trace tell then."""
    row = run.one("""
        SELECT any_value(config_json ->> 'architecture_json') AS architecture,
               any_value(config_json ->> 'tensor_parallel_size') AS tensor_ranks,
               any_value(config_json ->> 'enable_expert_parallel') AS whole_experts FROM sources""")
    if row["architecture"] is None or row["whole_experts"] == "true":      # whose experts lie where is not in it
        return None
    try:
        return model_of_geometry(read_config(json.loads(row["architecture"])), int(row["tensor_ranks"] or 1))
    except (AskedWrongly, CannotAnswer):
        return None


def _with_costs(captures: pa.Table, answer: Answer, longest_gap_ns: int | None) -> pa.Table:
    (row,) = captures.to_pylist()
    row |= {"start_cost_ns": answer.start_cost_ns, "stop_cost_ns": answer.stop_cost_ns, "export_ns": answer.export_ns,
            "trace_bytes": answer.trace_bytes, "longest_gap_ns": longest_gap_ns}  # fmt: skip
    return pa.Table.from_pylist([row], CAPTURES.arrow())


def _gaps(run: RunReader, answers: dict[str, Answer]) -> tuple[int | None, int | None]:
    """Longest time from one step's end to the next one's while somebody decoded in both: around the capture, and in as
    many steps before it."""
    first = min(n for a in answers.values() for n in a.steps)
    last = max(n for a in answers.values() for n in a.steps) + 1     # the step after it waited for the stop
    row = run.one("""
        WITH s AS (SELECT step, decode_requests_count AS n, end_ns - lag(end_ns) OVER w AS gap_ns,
                          lag(decode_requests_count) OVER w AS n_before
                   FROM steps WINDOW w AS (PARTITION BY process ORDER BY step)),
             g AS (SELECT step, gap_ns FROM s WHERE n > 0 AND n_before > 0)
        SELECT max(gap_ns) FILTER (step BETWEEN $first AND $last) AS longest_ns,
               max(gap_ns) FILTER (step BETWEEN $before AND $first - 1) AS usual_ns FROM g""",
        {"first": first, "last": last, "before": first - (last - first + 1)})  # fmt: skip
    return row["longest_ns"], row["usual_ns"]
