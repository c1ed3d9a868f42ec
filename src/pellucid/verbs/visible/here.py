"""This machine, before any engine: can recordings be kept, do the rings fit, is there a GPU to look at.

    checks(home, shm) → [{"check": "tmpfs", "state": "ok", "says": "/dev/shm (tmpfs): 23.5 GiB free", "do": ""}, …]

state   ok · missing (recording does not work until `do`) · blind (it works, but this cannot be seen)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import size
from pellucid.verbs.captures.ceilings import ceilings_here

Check = dict[str, str]


def checks(home: Path, shm: Path) -> list[Check]:
    return [_home(home), _tmpfs(shm), _gpu(), *_ceilings(home)]


def _check(name: str, state: str, says: str, do: str = "") -> Check:
    return {"check": name, "state": state, "says": says, "do": do}


def _home(home: Path) -> Check:
    at = next(p for p in (home, *home.parents) if p.exists())
    if not at.is_dir() or not os.access(at, os.W_OK | os.X_OK):
        return _check("home", "missing", f"{home} cannot be written", "set PELLUCID_HOME to a writable folder")
    free = shutil.disk_usage(at).free
    if not free:
        return _check("home", "missing", f"{home} has no room", "set PELLUCID_HOME to a folder on a disk with room")
    key = "has the site's key" if (home / "key").exists() else "the site's key is made at the first run"
    return _check("home", "ok", f"{home}: {size(free)} free, {key}")


def _tmpfs(shm: Path) -> Check:
    from pellucid_probe.process import RING_BYTES

    need = sum(RING_BYTES.values())
    if not shm.is_dir() or not os.access(shm, os.W_OK | os.X_OK):
        return _check("tmpfs", "missing", f"{shm} is no writable folder", "set PELLUCID_SHM to a tmpfs")
    kind, free = _filesystem(shm), shutil.disk_usage(shm).free
    if kind not in ("tmpfs", "ramfs"):
        return _check("tmpfs", "missing", f"{shm} is on {kind}: a ring there could stall the engine",
                      "set PELLUCID_SHM to a tmpfs, such as /dev/shm")  # fmt: skip
    if free < need:
        return _check("tmpfs", "missing", f"{shm}: {size(free)} free, the rings of one engine take {size(need)}",
                      "make it larger (docker run --shm-size=1g)")  # fmt: skip
    return _check("tmpfs", "ok", f"{shm} ({kind}): {size(free)} free, the rings of one engine take {size(need)}")


def _filesystem(path: Path) -> str:
    """The file system's type, from the longest mount point above the path."""
    best, kind = "", "an unknown file system"
    target = f"{path.resolve()}/"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        fields = line.split(" ")
        point = fields[1].rstrip("/") + "/"
        if target.startswith(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _gpu() -> Check:
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        names = {str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(count)}
        pynvml.nvmlShutdown()
    except Exception as error:  # NVML raises a class of its own for each fault; here each means: no device to see
        return _check("gpu", "blind", f"no device through NVML: {error}", "needs an NVIDIA GPU and its driver")
    return _check("gpu", "ok", f"{count} × {', '.join(sorted(names))}")


def _ceilings(home: Path) -> list[Check]:
    """One for each device that was measured; nothing where none was: the catalogue stands in then."""
    try:
        return [_check("ceilings", "ok", f"{m.device}: {m.bytes_per_s / 1e9:,.0f} GB/s, {m.source}") for m in ceilings_here(home)]  # noqa: E501
    except AskedWrongly as error:
        return [_check("ceilings", "blind", str(error))]
