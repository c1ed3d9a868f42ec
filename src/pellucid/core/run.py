"""What a run is: one recording, a folder. Names and paths only; rows live in `store`.

    $PELLUCID_HOME/runs/20261130-091500-a1b2/
        run.json        who recorded what, when
        recorder.lock   held by the one recorder
        steps-000000.parquet …  sealed segments
        steps-000001.arrows     the open tail
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pellucid.core.errors import AskedWrongly, CannotAnswer

# Packaged recordings: an engine on a CPU; a trace of kernels on an H200; an engine there, with captures of its kernels.
EXAMPLES = ("example", "example-kernels", "example-h200")


@dataclass(frozen=True, slots=True)
class RunInfo:
    run_id: str
    created_ns: int        # wall clock, UNIX ns
    command: list[str]     # what `run` launched; empty for a sidecar
    source: str            # the probe's folder


def new_run_id(wall_ns: int) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall_ns / 1e9))
    return f"{stamp}-{secrets.token_hex(2)}"


def write_info(folder: Path, info: RunInfo) -> None:
    tmp = folder / "run.json.tmp"
    tmp.write_text(json.dumps(asdict(info), indent=1))
    tmp.replace(folder / "run.json")


def read_info(folder: Path) -> RunInfo:
    """The run's own description. A damaged or missing run.json still names the run, from its folder."""
    try:
        raw = json.loads((folder / "run.json").read_text())
        return RunInfo(str(raw["run_id"]), int(raw["created_ns"]), list(raw["command"]), str(raw["source"]))
    except (OSError, ValueError, KeyError, TypeError):
        return RunInfo(folder.name, int(folder.stat().st_mtime * 1e9), [], "")


def run_folders(home: Path) -> list[Path]:
    """All runs, newest first."""
    root = home / "runs"
    if not root.is_dir():
        return []
    folders = [p for p in root.iterdir() if p.is_dir()]
    return sorted(folders, key=lambda p: (read_info(p).created_ns, p.name), reverse=True)


def _has_engine(folder: Path) -> bool:
    """Whether an engine's process wrote into it, or a trace was loaded. A command that ended early leaves neither."""
    return any(path for name in ("steps", "sources", "captures") for path in folder.glob(f"{name}-*"))


def find_run(home: Path, wanted: str | None, packaged: Path) -> Path:
    """The folder of a run: by id, unique prefix, path, name of a packaged one, or the newest that has anything."""
    if wanted in EXAMPLES:
        return packaged / wanted
    if wanted and ("/" in wanted or Path(wanted).is_dir()):
        if not Path(wanted).is_dir():
            raise AskedWrongly(f"no run at {wanted}: there is no such folder. Try: pellucid runs")
        return Path(wanted)
    folders = run_folders(home)
    if wanted is None:
        if not folders:
            raise CannotAnswer(
                f"no recording in {home}/runs. Try: pellucid why --run example, or pellucid run -- <engine command>"
            )
        return next((f for f in folders if _has_engine(f)), folders[0])
    hits = [f for f in folders if f.name == wanted] or [f for f in folders if f.name.startswith(wanted)]
    if len(hits) != 1:
        saw = "no run has that id" if not hits else f"{len(hits)} runs start so"
        raise AskedWrongly(f"run {wanted!r}: {saw} in {home}/runs. Try: pellucid runs")
    return hits[0]
