"""The present configuration under the workload, recorded: what a diagnosis rests on.

    seen = observe(lab, command, observe_s)      Seen(run=…/runs/2026…, engine=Engine(…), boot_s=58, …)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import Failed
from pellucid.core.run import run_folders
from pellucid.tune.command import Command
from pellucid.verbs.loop.trial.arms.booted import Booted, boot, seen
from pellucid.verbs.loop.trial.arms.place import whole
from pellucid.verbs.loop.trial.arms.trouble import Trouble
from pellucid.verbs.loop.trial.lab import Lab
from pellucid.verbs.loop.trial.pairing import Bench

START = 0


@dataclass(frozen=True, slots=True)
class Seen:
    run: Path | None           # None: its Python has no probe, or the recorder failed
    engine: Engine
    boot_s: float
    blocks_count: int
    model: str | None          # folder or name, as the engine reports it


def observe(lab: Lab, command: Command, observe_s: float) -> Seen:
    """Raises Failed where it does not boot or serve."""
    start = lab.start("present", command, whole(lab.machine), START)
    (found,) = boot([start], lab.wish.boot_limit_s)
    if isinstance(found, Trouble):
        raise Failed("\n  ".join([str(found), *found.log_tail, f"its log: {lab.folder}"]))
    try:
        count = _traffic(lab, found, observe_s)
        engine, model = seen(found), found.served.root if found.served else None
    finally:
        found.end()
    runs = run_folders(start.folder) if engine.config else []
    return Seen(runs[0] if runs else None, engine, found.boot_s, count, model)


def _traffic(lab: Lab, booted: Booted, observe_s: float) -> int:
    """Blocks of the workload, one after another, after a first to warm with."""
    bench = Bench(booted, booted, lab.pieces(booted), lab.wish, START)
    until_s, count = time.monotonic() + observe_s + lab.wish.block_s, 0
    while time.monotonic() < until_s:
        played = bench.block(booted, count, 0)
        if isinstance(played, Trouble):
            raise Failed("\n  ".join([str(played), *played.log_tail]))
        count += 1
    return count
