"""What the guard has to know of this machine: memory, and the shape of the model. Read here, judged in `tune`.

    host_room(engine_pid=4711)     Room("this container", total_bytes=…, free_bytes=…, engine_bytes=5_368_709_120)
    device_room(0)                 Room("device 0 NVIDIA H200", …)
    geometry_of("/models/m")       (Geometry(…), "")  or  (None, "/models/m/config.json: No such file or directory")

Of a host the narrowest limit counts: the machine's memory or that of a control group above this process (version 1 and
2). An engine's memory is the proportional share of all its processes (PSS), so shared pages count once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pellucid.collect.gpu.nvml import Gpus
from pellucid.core.errors import PellucidError
from pellucid.physics.config.read import read as read_config
from pellucid.physics.geometry import Geometry
from pellucid.store.schema import GPU
from pellucid.store.write import Row
from pellucid.tune.memory import Room

KIB = 1024
UNLIMITED = 1 << 60      # version 1 says "no limit" with a number of about 2^63
# name of the limit, of what is used, and of what of it can be given back at once
FILES = (("memory.max", "memory.current", "inactive_file"),
         ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))  # fmt: skip


def host_room(engine_pid: int | None, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Room:
    """Of the memory that a process of ours can have. `engine_pid`: the present engine's first process."""
    memory = _keyed(proc / "meminfo", KIB)
    total, free, name = memory.get("MemTotal"), memory.get("MemAvailable"), "this host"
    for limit, left in _limits(proc, cgroups):
        if total is None or limit < total:
            total, name = limit, "this container"
        free = left if free is None else min(free, left)
    return Room(name, total, free, None if engine_pid is None else tree_bytes(engine_pid, proc))


def device_room(index: int) -> Room:
    """Of one device. What of it the present engine has, NVML does not tell across containers: None."""
    rows: list[Row] = []
    Gpus.open().sample(0, lambda _, row: rows.append(row))
    if index >= len(rows):
        return Room(f"device {index}", None, None, None)
    found = dict(zip(GPU.names(), rows[index], strict=True))
    total, used = found["memory_total_bytes"], found["memory_used_bytes"]
    free = None if total is None or used is None else int(total) - int(used)
    return Room(f"device {found['device']}", total, free, None)


def tree_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """A process and all below it. None where one of them may not be looked at: a part would look like the whole."""
    below: dict[int, list[int]] = {}
    for stat in proc.glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):      # it ended while we looked
            continue
        below.setdefault(parent, []).append(int(stat.parent.name))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        waiting += below.get(one, [])
        pss = _keyed(proc / str(one) / "smaps_rollup", KIB).get("Pss")
        if pss is None:
            return None
        total += pss
    return total


def geometry_of(model: str) -> tuple[Geometry | None, str]:
    """The model's shape from a folder on this machine; None with the reason. Nothing is fetched."""
    path = Path(model) / "config.json"
    try:
        config = json.loads(path.read_text())
        return (read_config(config), "") if isinstance(config, dict) else (None, f"{path} holds no object")
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    except (ValueError, PellucidError) as error:
        return None, f"{path}: {error}"


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and what is left of it, of each control group above this process that has one."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = cgroups / "memory" if controllers else cgroups
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):
            if folder == root.parent:
                break
            yield from _limit(folder)


def _limit(folder: Path) -> Iterator[tuple[int, int]]:
    for limit_name, used_name, spare_name in FILES:
        limit, used = _whole(folder / limit_name), _whole(folder / used_name)
        if limit is not None and used is not None and limit < UNLIMITED:
            spare = _keyed(folder / "memory.stat", 1).get(spare_name, 0)
            yield limit, max(0, limit - used + spare)


def _whole(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdigit() else None      # "max": none


def _keyed(path: Path, unit: int) -> dict[str, int]:
    """Lines of a name and a number; empty where there is no such file, or none for us."""
    try:
        lines = [line.split() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    return {w[0].rstrip(":"): int(w[1]) * unit for w in lines if len(w) >= 2 and w[1].isascii() and w[1].isdigit()}
