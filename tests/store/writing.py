"""Rows and writers for these tests. `step_runs` has few columns, so its files are small."""

from __future__ import annotations

from pathlib import Path

from pellucid.core.units import S_NS
from pellucid.store.read import RunReader, open_run
from pellucid.store.write import Limits, Row, RunWriter


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * S_NS

    def __call__(self) -> int:
        return self.now_ns


def writer(folder: Path, clock: Hand | None = None, limits: Limits | None = None) -> RunWriter:
    return RunWriter(folder, limits or Limits(), clock or Hand())


def share(step: int) -> Row:
    return ("engine_core-1", 7, step, step, 1, step, 1, 0, "decode")


def sealed(folder: Path, *batches: range) -> list[Path]:
    """One sealed segment of step_runs for each batch of steps."""
    for steps in batches:
        w = writer(folder)
        for step in steps:
            w.append("step_runs", share(step))
        w.close()
    return sorted(folder.glob("step_runs-*.parquet"))


def steps_of(run: RunReader | Path) -> list[int]:
    reader = open_run(run) if isinstance(run, Path) else run
    return [r["first_step"] for r in reader.rows("SELECT first_step FROM step_runs ORDER BY 1")]
