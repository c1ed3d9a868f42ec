"""How long `pellucid --help` takes. Fails above the limit.

    python bench/help_speed.py [runs]
    pellucid --help · python 3.11.7, 2 CPUs, load 3.0, 30 runs: median 92 ms, p95 110 ms (limit 150 ms on the median)
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_MS = 150.0
PROGRAM = Path(sys.executable).parent / "pellucid"


def once_ms() -> float:
    start_ns = time.perf_counter_ns()
    subprocess.run([PROGRAM, "--help"], stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter_ns() - start_ns) / 1e6


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    once_ms()  # the first one writes bytecode and warms the page cache: every installation pays it once
    times = [once_ms() for _ in range(runs)]
    median, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(
        f"pellucid --help · python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"{runs} runs: median {median:.0f} ms, p95 {p95:.0f} ms (limit {LIMIT_MS:.0f} ms on the median)"
    )
    return 0 if median <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
