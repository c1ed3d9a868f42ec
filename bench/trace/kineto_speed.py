"""How fast a torch profiler's trace is read, beside a plain JSON parser and beside Holistic Trace Analysis.

    .venv/bin/python bench/trace/kineto_speed.py TRACE… [--hta PYTHON] [--grow BYTES] [--repeats N]

Each reading is a process of its own, the readers take turns, medians are printed. Rates are unpacked JSON per second of
CPU, unpacking included; the goal of 10 times is about the time a user waits. numpy has one thread in all of them: its
others wait busily for a while after they were started, and nobody here has work for them.

--hta   the Python of an environment that has HolisticTraceAnalysis (and ijson, which it prefers). Its TraceAnalysis
        parses and links launches, as we do, and is what the goal is about; its two parsers alone are shown beside it;
        its sums per kernel have to be ours
--grow  repeats the events of the first trace, with times and correlations moved on, into a temporary file of that size,
        and reads it once, with the peak of the memory

Goals: 100 MB/s, 10 times HTA, 1.5 GB for 2 GB.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GOAL_MB_PER_S, GOAL_TIMES_HTA, GOAL_PEAK_BYTES = 100.0, 10.0, 1_500_000_000
SUMS_MAY_DIFFER_NS = 1          # of a name: the others add floats of microseconds

MEASURE = """
import json, resource, sys, time
{imports}
path = sys.argv[1]
clocks = time.perf_counter(), time.process_time()
{read}
seconds, cpu = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
{sums}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({{"seconds": seconds, "cpu": cpu, "peak": peak, "sums": sums}}))
"""
OURS = MEASURE.format(
    imports="from pathlib import Path\nfrom pellucid.trace.torch_profiler.read import read",
    read="found = read(Path(path))", sums="sums = found.sums_ns()",
)  # fmt: skip
PLAIN = MEASURE.format(
    imports="import gzip", read="found = json.loads(gzip.open(path).read())",
    sums="""sums = {}
for e in found["traceEvents"]:
    if e.get("cat") == "kernel" and e.get("ph") == "X":
        sums[e["name"]] = sums.get(e["name"], 0) + e["dur"] * 1000""",
)  # fmt: skip
HTA = MEASURE.format(
    imports="""import logging, os
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserBackend, ParserConfig
config = ParserConfig.get_default_cfg()
config.parser_backend = ParserBackend[sys.argv[2]]""",
    read="_, frame, symbols = parse_trace_dataframe(path, config)",
    sums="""texts = symbols.get_sym_table()
kernels = frame[frame.cat == texts.index("kernel")]
sums = {texts[n]: float(v) * 1000 for n, v in kernels.groupby("name").dur.sum().items()}""",
)  # fmt: skip
HTA_ANALYSIS = MEASURE.format(
    imports="""import logging, os
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis""",
    read="found = TraceAnalysis({0: path}, os.path.dirname(path), include_last_profiler_step=True).t",
    sums="""texts, frame = found.symbol_table.get_sym_table(), found.get_trace(0)
kernels = frame[frame.cat == texts.index("kernel")]
sums = {texts[n]: float(v) * 1000 for n, v in kernels.groupby("name").dur.sum().items()}""",
)  # fmt: skip
LOADED_BY_HTA = "HTA TraceAnalysis"
BACKENDS = ("JSON", "IJSON_BATCH_AND_COMPRESS")

TS = re.compile(rb'("ts"\s*:\s*)(-?\d+)')
CORRELATION = re.compile(rb'("(?:correlation|id)"\s*:\s*)(\d+)')
EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
STEP_US, STEP_CORRELATION = 60_000_000, 10_000_000


def run(python: str, program: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([python, "-c", program, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def readers(hta: str | None) -> dict[str, tuple[str, ...]]:
    """Name → what is run, but for the path."""
    found: dict[str, tuple[str, ...]] = {"ours": (sys.executable, OURS), "json.loads": (sys.executable, PLAIN)}
    if hta:
        found[LOADED_BY_HTA] = (hta, HTA_ANALYSIS)
        found |= {f"HTA parser {backend}": (hta, HTA, backend) for backend in BACKENDS}
    return found


def compare(path: Path, hta: str | None, repeats: int) -> bool:
    size_mb = len(gzip.decompress(path.read_bytes())) / 1e6
    every = readers(hta)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in every}
    for _ in range(repeats):
        for name, (python, program, *rest) in every.items():
            found[name].append(run(python, program, str(path), *rest))
    print(f"{path.name}: {size_mb:.1f} MB of JSON, {path.stat().st_size / 1e6:.2f} MB packed")
    cpu, took = ({name: statistics.median(f[what] for f in runs) for name, runs in found.items()}
                 for what in ("cpu", "seconds"))  # fmt: skip
    for name, runs in found.items():
        peak = statistics.median(f["peak"] for f in runs)
        differs = "" if agree(found["ours"][0]["sums"], runs[0]["sums"]) else "   OTHER SUMS"
        times = f"x{cpu[name] / cpu['ours']:.1f} CPU  x{took[name] / took['ours']:.1f}{differs}"
        print(f"    {name:32} {cpu[name]:8.3f} s CPU {took[name]:8.3f} s {size_mb / cpu[name]:7.0f} MB/s "
              f"{peak / 1e6:6.0f} MB peak   {times}")
    theirs = took.get(LOADED_BY_HTA)
    same = all(agree(found["ours"][0]["sums"], runs[0]["sums"]) for runs in found.values())
    fast = size_mb / cpu["ours"] >= GOAL_MB_PER_S
    return bool(same and fast and (theirs is None or theirs / took["ours"] >= GOAL_TIMES_HTA))


def agree(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    return ours.keys() == theirs.keys() and all(abs(theirs[n] - v) <= SUMS_MAY_DIFFER_NS for n, v in ours.items())


def grown(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The trace, its events again and again. No event is like another."""
    whole = gzip.decompress(path.read_bytes())
    start = EVENTS.search(whole)
    assert start is not None
    end = whole.rindex(b"]")
    events, size = whole[start.end():end], 0
    yield whole[:start.end()]
    for turn in range(most_bytes // len(events)):
        moved = CORRELATION.sub(added(turn * STEP_CORRELATION), TS.sub(added(turn * STEP_US), events))
        size += len(moved)
        yield (b"," if turn else b"") + moved
    yield whole[end:]


def added(by: int) -> Callable[[re.Match[bytes]], bytes]:
    return lambda found: b"%b%d" % (found[1], int(found[2]) + by)


def grow(path: Path, most_bytes: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-") as folder:
        large, size = Path(folder) / "large.json.gz", 0
        packer = zlib.compressobj(1, wbits=31)
        with large.open("wb") as f:
            for part in grown(path, most_bytes):
                size += len(part)
                f.write(packer.compress(part))
            f.write(packer.flush())
        found = run(sys.executable, OURS, str(large))
        once = run(sys.executable, OURS, str(path))
    turns, left = divmod(sum(found["sums"].values()), sum(once["sums"].values()))
    print(f"grown to {size / 1e9:.2f} GB of JSON: {found['cpu']:.1f} s CPU, {found['seconds']:.1f} s, "
          f"{size / 1e6 / found['cpu']:.0f} MB/s, peak {found['peak'] / 1e9:.2f} GB (goal {GOAL_PEAK_BYTES / 1e9:.1f} "
          f"for 2 GB), kernel time {turns} times that of one turn{f', and {left} ns' if left else ''}")  # fmt: skip
    return bool(not left and found["peak"] <= GOAL_PEAK_BYTES and size / 1e6 / found["cpu"] >= GOAL_MB_PER_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--hta")
    parser.add_argument("--grow", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"load {os.getloadavg()[0]:.1f}, nice {os.nice(0)}, {asked.repeats} repeats in turns, medians")  # fmt: skip
    reached = [compare(path, asked.hta, asked.repeats) for path in asked.traces]
    if asked.grow:
        reached.append(grow(asked.traces[0], asked.grow))
    print("goals reached" if all(reached) else "GOAL MISSED")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
