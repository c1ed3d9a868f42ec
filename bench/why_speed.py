"""How long `why` and `why --matrix` take on a long recording, cold: imports, opening, rules, answer.

    .venv/bin/python bench/why_speed.py [steps] [running]

A made-up recording of steps at a constant number of running requests, written once with the store's own Parquet
segments; then `why` runs in fresh processes. The page cache is warm (the file was just written); the process is cold.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.store.schema import TABLES

SEGMENT_ROWS = 200_000
LIMIT_S = 2.0
MATRIX_LIMIT_S = 2.0      # more than `why`: it reads the steps a second time and asks the rules of five windows
ONCE = """
import sys
from pathlib import Path
from pellucid.verbs.why import why
print(why(Path(sys.argv[1]))["verdict"])
"""
ONCE_MATRIX = """
import sys
from pathlib import Path
from pellucid.verbs.watch.matrix import matrix
print(len(matrix(Path(sys.argv[1]))["rows"]))
"""


def write_steps(folder: Path, steps: int, running: int) -> None:
    """Decode steps with a prompt of 500 tokens in every eighth; durations vary, so nothing compresses to nothing."""
    random = np.random.default_rng(7)
    prefill = np.where(np.arange(steps) % 8 == 0, 500, 0)
    lasts = (20e6 + 4e4 * (prefill + running) + random.normal(0, 1e6, steps)).astype(np.int64)
    ends = np.cumsum(lasts + 100_000)
    columns: dict[str, object] = {
        "step": np.arange(steps), "start_ns": ends - lasts, "end_ns": ends,
        "schedule_ns": random.integers(100_000, 300_000, steps), "update_ns": random.integers(50_000, 150_000, steps),
        "execute_ns": lasts - 400_000, "host_gap_ns": np.full(steps, 100_000), "worker_ns": lasts - 600_000,
        "running_count": np.full(steps, running), "waiting_count": random.integers(0, 3, steps),
        "scheduled_tokens": prefill + running, "prefill_tokens": prefill, "decode_tokens": np.full(steps, running),
        "output_tokens": np.full(steps, running), "kv_used_blocks_count": random.integers(4000, 8000, steps),
        "decode_requests_count": np.full(steps, running), "prefill_requests_count": (prefill > 0).astype(np.int64),
        "kv_total_blocks_count": np.full(steps, 10_000), "kv_cached_blocks_count": random.integers(4000, 8000, steps),
        "sequence_cap_count": np.full(steps, 2 * running),
        "token_budget_tokens": np.full(steps, 2048),
    }  # fmt: skip
    zeros = ("waiting_sequence_cap_count", "waiting_token_budget_count", "waiting_kv_count", "recomputed_tokens",
             "preempted_count", "preempted_tokens", "draft_tokens", "accepted_tokens", "discarded_tokens")  # fmt: skip
    columns |= {name: np.zeros(steps, np.int64) for name in zeros}
    columns |= {name: ["x"] * steps for name in ("deployment", "engine", "process")}
    _write(folder, "steps", columns, steps)


def write_requests(folder: Path, steps: int, running: int) -> None:
    """Each request takes 500 steps."""
    count = steps * running // 500
    at = np.linspace(1e9, steps * 23e6, count).astype(np.int64)
    columns: dict[str, object] = {
        "request": np.arange(count), "arrival_ns": at, "queued_ns": at + 1_000_000, "scheduled_ns": at + 5_000_000,
        "first_token_ns": at + 60_000_000, "last_token_ns": at + 11_000_000_000, "finish_ns": at + 11_000_000_000,
        "first_delivered_ns": at + 61_000_000, "cached_tokens": np.full(count, 48),
        "output_tokens": np.full(count, 500), "prompt_tokens": np.full(count, 500), "finish_reason": ["length"] * count,
    }  # fmt: skip
    _write(folder, "requests", columns, count)


def _write(folder: Path, name: str, columns: dict[str, object], count: int) -> None:
    schema = TABLES[name].arrow()
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type) for f in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    for number, start in enumerate(range(0, count, SEGMENT_ROWS)):
        part = table.slice(start, SEGMENT_ROWS)
        pq.write_table(part, folder / f"{name}-{number:06d}.parquet", compression="zstd", write_page_checksum=True)


def main() -> int:
    given = [int(a) for a in sys.argv[1:3]]
    steps, running = (*given, *(1_000_000, 64)[len(given):])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_steps(folder, steps, running)
        write_requests(folder, steps, running)
        why_s = _measured("why", ONCE, folder, LIMIT_S, steps, running)
        matrix_s = _measured("why --matrix", ONCE_MATRIX, folder, why_s + MATRIX_LIMIT_S, steps, running)
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    print(f"conditions: {cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}, page cache warm")  # fmt: skip
    return 0 if why_s <= LIMIT_S and matrix_s <= why_s + MATRIX_LIMIT_S else 1


def _measured(what: str, code: str, folder: Path, limit_s: float, steps: int, running: int) -> float:
    """Runs it five times, says how long it took, and gives the median."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = [_once(code, folder) for _ in range(5)]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(taken)
    print(f"{what}, cold process, {steps:,} steps at {running} running: median {statistics.median(taken):.2f} s, "
          f"worst {max(taken):.2f} s of {len(taken)} (limit {limit_s:.1f} s); CPU {cpu_s:.2f} s each")  # fmt: skip
    return statistics.median(taken)


def _once(code: str, folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
