"""How fast an SQLite export of Nsight Systems is read, and what other ways to its columns take.

    .venv/bin/python bench/trace/nsys_speed.py [--kernels N] [--repeats N]

Writes an export with N kernels and as many runtime calls, with the columns that nsys 2026 writes, into a temporary
folder. Measured, in turns: the whole loader (kernels, calls, links between them), the kernels' columns alone as the
loader reads them, and the same columns through Python's sqlite3. Goal: 1,000,000 kernels a second for the whole loader,
in the time a user waits; two threads read, so the CPU's time is longer.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pellucid.trace.nsys.sqlite import KERNEL_TABLE, TABLES, read
from pellucid.trace.nsys.tables import Database, _quoted
from pellucid.trace.timeline import Damage

GOAL_PER_S = 1_000_000
KERNEL_COLUMNS = ("start end deviceId contextId greenContextId streamId correlationId globalPid demangledName "
                  "shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY "
                  "blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
                  "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig graphId")  # fmt: skip
CALL_COLUMNS = "start end eventClass globalTid correlationId nameId returnValue callchainId"
PROCESS, THREAD, STEP_NS, NAMES = 7 << 24, 7 << 24 | 9, 5_000, 300


def kernel_row(i: int) -> tuple[int | None, ...]:
    at = 1_700_000_000_000 + i * STEP_NS
    name = i % NAMES
    return (at, at + 3_000 + i % 997, 0, 1, None, 7, i, PROCESS, name, name, name, 1, 1, 32, 1 + i % 1000, 1, 1,
            128, 1, 1, 0, 0, 0, 250_871_808, i, 32_768, None, 0, None)  # fmt: skip


def call_row(i: int) -> tuple[int | None, ...]:
    at = 1_700_000_000_000 + i * STEP_NS - 4_000
    return at, at + 2_000, 0, THREAD, i, NAMES, 0, None


def export(path: Path, count: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    names = [(i, f"void kernel_{i}<float>(T1)") for i in range(NAMES)]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [*names, (NAMES, "cudaLaunchKernel_v7000")])
    for table, columns, row in ((KERNEL_TABLE, KERNEL_COLUMNS, kernel_row),
                                ("CUPTI_ACTIVITY_KIND_RUNTIME", CALL_COLUMNS, call_row)):  # fmt: skip
        listed = [f'"{name}" INTEGER' for name in columns.split()]
        connection.execute(f"CREATE TABLE {table} ({', '.join(listed)})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(listed))})", map(row, range(count)))
    connection.commit()
    connection.close()


def ours(path: Path) -> None:
    with Database(path) as database:
        database.columns(KERNEL_TABLE, TABLES[KERNEL_TABLE][1], Damage())


def plain(path: Path) -> None:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    wanted = ", ".join(f"ifnull({_quoted(sql)}, -1)" for sql in TABLES[KERNEL_TABLE][1].values())
    cursor = connection.execute(f"SELECT {wanted} FROM {KERNEL_TABLE}")
    while rows := cursor.fetchmany(10_000):
        np.array(rows, np.int64)
    connection.close()


def loader(path: Path) -> None:
    found = read(path)
    assert (found.kernels.launch >= 0).all()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    ways: dict[str, Callable[[Path], None]] = {"kernels' columns": ours, "the same by sqlite3": plain, "loader": loader}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-") as folder:
        path = Path(folder) / "export.sqlite"
        export(path, asked.kernels)
        print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, SQLite "
              f"{sqlite3.sqlite_version}, load {os.getloadavg()[0]:.1f}, nice {os.nice(0)}, {asked.kernels} kernels "
              f"and as many calls, {path.stat().st_size / 1e6:.0f} MB, {asked.repeats} repeats in turns, "
              f"medians")  # fmt: skip
        for _ in range(asked.repeats):
            for name, way in ways.items():
                start = time.perf_counter(), time.process_time()
                way(path)
                seconds[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    for name, taken in seconds.items():
        waited, cpu = (statistics.median(values) for values in zip(*taken, strict=True))
        print(f"    {name:24} {waited:8.3f} s {cpu:8.3f} s CPU {asked.kernels / waited:12,.0f} kernels/s "
              f"{asked.kernels / cpu:12,.0f} kernels/s of CPU")  # fmt: skip
    reached = asked.kernels / statistics.median(waited for waited, _ in seconds["loader"]) >= GOAL_PER_S
    print("goal reached" if reached else "GOAL MISSED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
