"""How fast a device copies and multiplies, through torch → one line of JSON. A program for the engine's own Python.

    python measure.py --device cuda:0
    {"device": "NVIDIA H200", "rates": {"copy_bytes_per_s": {"most_per_s": 4.22e12, "median_per_s": …,
     "least_per_s": …}, "bf16_flop_per_s": {…}}, "missing": {"int8_flop_per_s": "…"}, "conditions": {"torch": …}}
    {"refused": "9.1 GiB of the device are in use: measuring would disturb what runs there", "do": "…"}

Needs Python 3.9, torch and nothing of pellucid. Data are random: zeros multiply faster, as they take less power.
Buffers are many times the L2. Batches are timed by the host from idle to idle, long enough that launching counts for
nothing, and apart: a device that multiplies for a second on end takes all its power and lowers its clock, which an
engine's kernels, one after another of many kinds, do not make it do.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

GIB = 1 << 30
USED_GIB = 2.0          # chosen: what a driver and torch's own context hold stays below; an engine holds tens of GiB
LEAST_CALLS = 3
MULTIPLIED = ("bf16", "fp16", "fp8", "int8")
OTHER = "--engine-python PATH, the Python of an engine that runs on the device"
Work = Callable[[], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="as torch names it; cpu to try the program")
    parser.add_argument("--copy-gib", type=float, default=2.0, help="size of each buffer that is copied")
    parser.add_argument("--side", type=int, default=8192, help="of the square matrices")
    parser.add_argument("--batch-s", type=float, default=0.03, help="how long a batch is at least")
    parser.add_argument("--rest-s", type=float, default=0.1, help="between two batches")
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--even-if-busy", action="store_true", help="measure where something else runs, too")
    asked = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(json.dumps({"refused": f"{sys.executable} has no torch ({error})", "do": OTHER}))
        return 3
    found = refusal(torch, asked) or measured(torch, asked)
    print(json.dumps(found))
    return 3 if "refused" in found else 0


def refusal(torch: Any, asked: argparse.Namespace) -> dict[str, Any] | None:
    if asked.device == "cpu":
        return None
    if not torch.cuda.is_available():
        return {"refused": f"torch {torch.__version__} in {sys.executable} sees no device", "do": OTHER}
    used = used_bytes(torch, asked)
    if used > USED_GIB * GIB and not asked.even_if_busy:
        return {"refused": f"{used / GIB:.1f} GiB of the device are in use: measuring would disturb what runs there",
                "do": "again when nothing runs there; or --even-if-busy"}  # fmt: skip
    return None


def used_bytes(torch: Any, asked: argparse.Namespace) -> int:
    if asked.device == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info(torch.device(asked.device))
    return int(total - free)


def measured(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(asked.device)
    used = used_bytes(torch, asked)
    torch.manual_seed(1)
    rates: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, amount, prepare in plan(torch, device, asked):
        try:
            rates[name] = timed(torch, device, prepare(), amount, asked)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError) as error:
            missing[name] = (str(error).strip().splitlines() or [type(error).__name__])[0]
    conditions = {
        "torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
        "copy_gib": asked.copy_gib, "side": asked.side, "batches_count": asked.batches, "batch_s": asked.batch_s,
        "rest_s": asked.rest_s, "used_bytes_before": used, "python": sys.version.split()[0],
    }  # fmt: skip
    return {"device": name_of(torch, device), "rates": rates, "missing": missing, "conditions": conditions}


def name_of(torch: Any, device: Any) -> str:
    return "cpu" if device.type == "cpu" else str(torch.cuda.get_device_properties(device).name)


def plan(torch: Any, device: Any, asked: argparse.Namespace) -> list[tuple[str, float, Callable[[], Work]]]:
    """(quantity, amount of one call, what prepares the call). A copy reads and writes; a sum only reads."""
    count = int(asked.copy_gib * GIB / 4)
    flop = 2.0 * asked.side**3

    def copies() -> Work:
        source, target = torch.rand(count, device=device), torch.empty(count, device=device)
        return lambda: target.copy_(source)

    def sums() -> Work:
        source = torch.rand(count, device=device)
        return lambda: source.sum()

    products = [(f"{p}_flop_per_s", flop, lambda p=p: product(torch, device, p, asked.side)) for p in MULTIPLIED]
    return [("copy_bytes_per_s", 8.0 * count, copies), ("read_bytes_per_s", 4.0 * count, sums), *products]


def product(torch: Any, device: Any, precision: str, side: int) -> Work:
    """Raises where this torch, or the device, does not multiply so."""
    a, b = (torch.randn(side, side, device=device) for _ in range(2))
    if precision == "int8":
        left, right = ((x * 40).round().clamp(-127, 127).to(torch.int8) for x in (a, b))
        right = columns(right)
        return lambda: torch._int_mm(left, right)
    if precision == "fp8":
        left, right = (x.to(torch.float8_e4m3fn) for x in (a, b))
        right, one = columns(right), torch.ones((), device=device)
        return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    left, right = a.to(kind), b.to(kind)
    return lambda: torch.mm(left, right)


def columns(matrix: Any) -> Any:
    """The same with its columns lying together, as products of eight bits want their second side."""
    return matrix.t().contiguous().t()


def timed(torch: Any, device: Any, work: Work, amount: float, asked: argparse.Namespace) -> dict[str, Any]:
    """Rates of batches: the most that one reached is the ceiling."""
    batch(torch, device, work, LEAST_CALLS)         # the first calls load kernels and choose among them
    once_s = batch(torch, device, work, LEAST_CALLS) / LEAST_CALLS
    calls = max(LEAST_CALLS, math.ceil(asked.batch_s / once_s))
    found = []
    for _ in range(asked.batches):
        time.sleep(asked.rest_s)
        found.append(amount * calls / batch(torch, device, work, calls))
    return {"median_per_s": statistics.median(found), "least_per_s": min(found), "most_per_s": max(found),
            "calls": calls}  # fmt: skip


def batch(torch: Any, device: Any, work: Work, calls: int) -> float:
    """Seconds."""
    settle(torch, device)
    start = time.perf_counter()
    for _ in range(calls):
        work()
    settle(torch, device)
    return time.perf_counter() - start


def settle(torch: Any, device: Any) -> None:
    if device.type != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
