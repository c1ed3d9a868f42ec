"""What a machine has for two engines: cores, devices, memory.

    here(os.environ) → Machine(cores=(0, 1), devices=(), total_bytes=25_000_000_000, available_bytes=21_000_000_000)
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pellucid.catalog.servers.command_line import CommandLine
from pellucid.collect.gpu.nvml import Gpus

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Machine:
    name: str                    # "x86_64, AMD EPYC 7B13"
    cores: tuple[int, ...]       # a logical CPU for each core that we may use
    devices: tuple[str, ...]     # as device_env names them; empty where engines compute on the CPU
    device_names: tuple[str, ...]
    total_bytes: int
    available_bytes: int


def here(environ: Mapping[str, str], entry: CommandLine) -> Machine:
    names = Gpus.open().names
    visible = environ.get(entry.device_env)
    devices = [str(i) for i in range(len(names))] if visible is None else [d for d in visible.split(",") if d.strip()]
    memory = _memory()
    return Machine(
        name=f"{platform.machine()}, {_processor()}", cores=cores(sorted(os.sched_getaffinity(0)), CPUS),
        devices=tuple(devices) if names else (), device_names=tuple(names),
        total_bytes=memory["MemTotal"], available_bytes=memory["MemAvailable"],
    )  # fmt: skip


def cores(allowed: list[int], cpus: Path) -> tuple[int, ...]:
    """The first hardware thread of each core; all of them where that leaves a single one to share."""
    first: dict[str, int] = {}
    for cpu in allowed:
        try:
            siblings = (cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            siblings = str(cpu)
        first.setdefault(siblings, cpu)
    return tuple(first.values()) if len(first) > 1 else tuple(allowed)


def _memory() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
