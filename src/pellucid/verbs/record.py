"""The sidecar: record whatever engine carries the probe and writes into a folder, until told to stop.

    record(Path("/dev/shm/pellucid-run-x4k2"), RecordInto(home), stop) → the run's folder

With a folder of its own a run is made for it; `pellucid run` has made one already.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pellucid.collect.loop import record as record_rings
from pellucid.collect.openmetrics.address import endpoint
from pellucid.core.clock import Clock, anchor_now, monotonic_ns
from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.run import RunInfo, new_run_id, write_info
from pellucid.verbs.site import put_key, site_key

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class RecordInto:
    home: Path
    folder: Path | None = None     # None: a new run
    metrics_url: str = ""          # of a metrics page to read beside the probe; "" for none


def record(rings: Path, into: RecordInto, stop: Stop, began: Callable[[Path], None] = lambda _: None) -> Path:
    """Blocks until `stop()`. `began` is told the run's folder before the first row."""
    if not rings.is_dir():
        raise AskedWrongly(
            f"no folder at {rings}. Make it on a tmpfs (mkdir -m 700 {rings}) and start the engine with "
            f"PELLUCID_DIR={rings}, or let pellucid run do both"
        )
    page = endpoint(into.metrics_url) if into.metrics_url else None
    folder = _run_folder(rings, into)
    began(folder)
    record_rings(rings, folder, stop, page=page)
    return folder


def _run_folder(rings: Path, into: RecordInto) -> Path:
    try:
        put_key(rings, site_key(into.home))
    except OSError as error:
        raise Failed(_cannot(rings, error)) from error
    return new_run(into, str(rings))


def new_run(into: RecordInto, source: str) -> Path:
    """The folder to record into, made and described. `source` is where its rows come from."""
    now = anchor_now()
    folder = into.folder or into.home / "runs" / new_run_id(now.wall_ns)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run.json").exists():
            write_info(folder, RunInfo(folder.name, now.wall_ns, [], source))
    except OSError as error:
        raise Failed(_cannot(folder, error)) from error
    return folder


def _cannot(folder: Path, error: OSError) -> str:
    return f"cannot record into {folder}: {error.strerror} ({error.filename}). Set PELLUCID_HOME to a writable folder"


def stop_on_signals() -> Stop:
    """True from the first SIGTERM or SIGINT on."""
    seen: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _frame: seen.append(n))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})  # `run` starts us with SIGTERM held
    return lambda: bool(seen)


def stop_after(limit_ns: int, clock: Clock = monotonic_ns) -> Stop:
    end_ns = clock() + limit_ns
    return lambda: clock() >= end_ns


def stop_at_exit_of(pid: int, grace_s: float = 2.0) -> Stop:
    """True once the process is gone, and a little later: its children may still be writing their last records."""
    gone_at: list[float] = []

    def stop() -> bool:
        if not gone_at and not _alive(pid):
            gone_at.append(time.monotonic())
        return bool(gone_at) and time.monotonic() - gone_at[0] >= grace_s

    return stop


def any_of(*stops: Stop) -> Stop:
    return lambda: any(stop() for stop in stops)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
