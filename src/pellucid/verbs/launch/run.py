"""Launch an engine with the probe in and a recorder beside it; be as if only the engine had been started.

    pellucid run -- python -m engine …

      launcher ── engine        the user's terminal, signals and exit code
         │           └─ probe ──▶ rings on tmpfs ─┐
         └── recorder (its own session) ◀─────────┘──▶ $PELLUCID_HOME/runs/<run id>

Whatever goes wrong with recording is said on stderr and the engine runs on. Order at the end: the engine is gone,
the recorder drains and seals, the tmpfs folder goes, one line says what there is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.clock import Anchor
from pellucid.core.errors import Failed
from pellucid.core.run import RunInfo, new_run_id, write_info
from pellucid.core.units import counted
from pellucid.verbs.launch.child import cannot_start_code, detached, environment_without, signals_held, start, wait
from pellucid.verbs.launch.child import wait_or_interrupt as wait_for
from pellucid.verbs.launch.engines import extend_environment
from pellucid.verbs.site import (
    ProbeFolder,
    given_folder,
    make_folder,
    put_control_key,
    put_key,
    remove_folder,
    site_key,
)  # fmt: skip

DRAIN_LIMIT_S = 60.0
LOG = "recorder.log"
CONTROL = "PELLUCID_CONTROL"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    command: list[str]
    home: Path
    shm: Path
    folder: Path | None        # the probe's folder if the user gave one
    recorder: Sequence[str]    # the program that records; gets the folder, the run folder and the engine's pid
    now: Anchor
    control: bool = False      # whether the engine's live settings may be changed while it runs


@dataclass(slots=True)
class Recording:
    """What runs beside the engine, and what of it has been said already."""

    probe: ProbeFolder
    folder: Path
    control: Path | None = None    # the key file
    recorder: subprocess.Popen[bytes] | None = None
    said: set[str] = field(default_factory=set)


def run(launch: Launch, environ: Mapping[str, str], say: Say) -> int:
    """The engine's exit code (128 + signal if one ended it), 127 or 126 if it could not be started."""
    recording = _prepare(launch, environ, say)
    with signals_held() as before:
        try:
            engine = start(launch.command, _environment(environ, recording), before)
        except OSError as error:
            if recording:
                remove_folder(recording.probe)
                shutil.rmtree(recording.folder, ignore_errors=True)
            say(f"cannot start {launch.command[0]}: {error.strerror}")
            return cannot_start_code(error)
        if recording is None:
            return wait(engine, lambda: None)
        _start_recorder(launch, recording, engine.pid, say)
        code = wait(engine, lambda: _watch(recording, say))
        _finish(recording, code, say)
        return code


def _prepare(launch: Launch, environ: Mapping[str, str], say: Say) -> Recording | None:
    """The folders of a recording, or None, said why, when there can be none."""
    if environ.get("PELLUCID_OFF") == "1":
        say("PELLUCID_OFF=1 is set: the engine runs, nothing is recorded")
        return None
    probe: ProbeFolder | None = None
    try:
        key = site_key(launch.home)
        probe = given_folder(launch.folder) if launch.folder else make_folder(launch.shm)
        put_key(probe.path, key)
        folder = launch.home / "runs" / new_run_id(launch.now.wall_ns)
        folder.mkdir(parents=True)
        write_info(folder, RunInfo(folder.name, launch.now.wall_ns, launch.command, str(probe.path)))
        return Recording(probe, folder, put_control_key(probe.path) if launch.control else None)
    except (OSError, Failed) as error:
        if probe:
            remove_folder(probe)
        say(f"the engine runs, nothing is recorded: {_reason(error)}. PELLUCID_HOME is {launch.home}, PELLUCID_SHM {launch.shm}")  # noqa: E501
        return None


def _environment(environ: Mapping[str, str], recording: Recording | None) -> dict[str, str]:
    if recording is None:
        return environment_without(environ, "PELLUCID_DIR")  # a ring that nobody reads is only memory lost
    control = {CONTROL: str(recording.control)} if recording.control else {}
    return {**extend_environment(environ), "PELLUCID_DIR": str(recording.probe.path), **control}


def _start_recorder(launch: Launch, recording: Recording, engine_pid: int, say: Say) -> None:
    command = [*launch.recorder, str(recording.probe.path), "--run-folder", str(recording.folder),
               "--until-exit", str(engine_pid), "--home", str(launch.home)]  # fmt: skip
    held = [recording.probe.owner_fd] if recording.probe.owner_fd is not None else []
    try:
        log = os.open(recording.folder / LOG, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            recording.recorder = detached(command, log, held)
        finally:
            os.close(log)
    except OSError as error:
        say(f"the engine runs, nothing is recorded: cannot start the recorder, {_reason(error)}")


def _watch(recording: Recording, say: Say) -> None:
    """Says once what is not recorded, as soon as it shows."""
    recorder = recording.recorder
    if recorder is not None and recorder.poll() is not None and "recorder" not in recording.said:
        recording.said.add("recorder")
        say(f"the recorder ended with code {recorder.returncode}: {_last_line(recording.folder / LOG)}. "
            "The engine runs on, what it does from here is not recorded")  # fmt: skip
    for name, source in probe_sources(recording.probe.path).items():
        if source.get("state") == "off" and name not in recording.said:
            recording.said.add(name)
            say(f"the probe stays off in {name}: {source.get('reason')}. The engine runs on, this process is not recorded")  # noqa: E501


def _finish(recording: Recording, code: int, say: Say) -> None:
    _watch(recording, say)
    drained = _drain(recording, say)
    sources = probe_sources(recording.probe.path)
    from pellucid.verbs.runs import summary  # the store is heavy: not while the engine runs

    row = summary(recording.folder)
    keep_audit(recording.probe.path, recording.folder, say)
    if drained:
        remove_folder(recording.probe)
    if not row["steps_count"] and (code or not sources):
        say(_unserved(recording, code, sources, row))
    else:
        name = row["run_id"]
        say(f"recorded {name}: {_counts(row)} → pellucid why --run {name}")


def keep_audit(probe: Path, folder: Path, say: Say) -> None:
    """What was changed in the running engine stays with the run; the probe's folder does not."""
    for path in sorted(probe.glob("control/*.audit.jsonl")):
        try:
            (folder / "control").mkdir(exist_ok=True)
            shutil.copy(path, folder / "control")
        except OSError as error:
            say(f"what was changed in the engine is in {path}, and cannot be kept: {_reason(error)}")


def _drain(recording: Recording, say: Say) -> bool:
    """Lets the recorder write what the engine left. False when it is still at it and we go."""
    recorder = recording.recorder
    if recorder is None or recorder.poll() is not None:
        return True
    recorder.send_signal(signal.SIGTERM)
    end = wait_for(recorder, DRAIN_LIMIT_S)
    if end == "ended":
        if recorder.returncode:
            say(f"the recorder ended with code {recorder.returncode}: {_last_line(recording.folder / LOG)}")
        return True
    say(f"the recorder (process {recorder.pid}) is still writing {recording.folder}; it goes on by itself")
    return False


def _unserved(recording: Recording, code: int, sources: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """One line for an engine that ended without having computed anything."""
    reported = ", ".join(f"{name} (probe {s.get('state')})" for name, s in sorted(sources.items()))
    end = f"the engine ended with code {code} before it served" if code else "the engine ended"
    if not reported:
        return (f"{end}, and no process of it carried the probe: nothing was recorded in {recording.folder}. "
                "Is pellucid-probe in its Python? Try: pellucid doctor --plan --engine-python PATH")  # fmt: skip
    return f"{end}; recorded in {recording.folder}: {_counts(row)}; processes that reported: {reported}"


def _counts(row: Mapping[str, Any]) -> str:
    return ", ".join(counted(row[f"{things}_count"], things) for things in ("requests", "steps"))


def probe_sources(folder: Path) -> dict[str, dict[str, Any]]:
    """What each engine process says about itself, by process; one that is half-written is left for the next look."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            source = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(source, dict):
            found[path.stem] = source
    return found


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError as error:
        return f"its log cannot be read, {_reason(error)}"
    return lines[-1] if lines else "it left no message"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)
