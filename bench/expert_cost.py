"""What counting experts costs: in every step, in a sampled one, and the share of the time that follows.

    .venv-engine/bin/python bench/expert_cost.py

Routers and requests of our own, the probe's counting as it is, on the CPU, one thread. Medians. With the stride it
chooses by itself, the share is of a step of STEP_MS: 10 ms is a short one for so many layers.
"""

from __future__ import annotations

import statistics
import time
from types import SimpleNamespace
from typing import Any

import torch
from pellucid_probe.process import Fact
from pellucid_probe.vllm.experts import SHARE, STRIDES, Experts
from pellucid_probe.vllm.experts.routers import Layer, Placement

STEP_MS = 10
SHAPES = ((4, 16, 4), (48, 128, 8))      # layers, experts, choices
ROWS = (1, 64, 512)
ONE_RANK = SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=1, data_parallel_size=1))


class Process:
    shed_level = 0

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}

    def see(self, fact: str, _hooks: list[Any]) -> bool:
        self.facts[fact] = Fact("visible")
        return True


class Router:
    capture_fn: Any = None

    def set_capture_fn(self, capture: Any) -> None:
        self.capture_fn = capture


def measure(layers: int, experts: int, top_k: int, rows: int) -> tuple[float, float, float]:
    """Median us of all captures of a step that is not sampled, of one that is, and of counting it."""
    routers = [Router() for _ in range(layers)]
    made = Experts(Process())  # type: ignore[arg-type]
    made._torch = torch
    made._layers = [Layer(n, r, experts, top_k, Placement(None, 1, False, "")) for n, r in enumerate(routers)]
    made._watch(SimpleNamespace(rank=0), ONE_RANK)
    ids = [torch.randint(0, experts, (rows, top_k), dtype=torch.int32) for _ in routers]
    names = [str(n) for n in range(min(rows, 64))]
    labels = [SimpleNamespace(extra_args={"task": "ab"[n % 2]}) for n in range(len(names))]
    asks = [SimpleNamespace(req_id=n, sampling_params=label) for n, label in zip(names, labels, strict=True)]
    plan = SimpleNamespace(scheduled_new_reqs=asks, finished_req_ids=set(), total_num_scheduled_tokens=rows,
                           num_scheduled_tokens=dict.fromkeys(names, rows // len(names)))  # fmt: skip
    runner = SimpleNamespace(input_batch=SimpleNamespace(req_ids=names))
    spent: tuple[list[int], ...] = ([], [], [])
    for _ in range(60):
        for taking in (False, True):
            made.taking = taking
            start = time.perf_counter_ns()
            for router, chosen in zip(routers, ids, strict=True):
                router.capture_fn(chosen)
            spent[taking].append(time.perf_counter_ns() - start)
        start = time.perf_counter_ns()
        made.end(STRIDES[0], start, start + STEP_MS * 1_000_000, plan, runner)
        spent[2].append(time.perf_counter_ns() - start)
        plan.scheduled_new_reqs = []
    if made.hook.errors_count:
        raise RuntimeError(made.hook.last_error)
    idle, kept, counted = (statistics.median(s) / 1000 for s in spent)
    return idle, kept, counted


def main() -> None:
    torch.set_num_threads(1)
    for shape in SHAPES:
        for rows in ROWS:
            idle, kept, counted = measure(*shape, rows)
            stride = next((s for s in STRIDES if (kept + counted) / (STEP_MS * 1000 * s) <= SHARE), STRIDES[-1])
            share = (idle + (kept + counted) / stride) / (STEP_MS * 1000)
            print(f"{shape[0]} layers, {shape[1]} experts, top {shape[2]}, {rows} rows: {idle:.1f} us a step; "
                  f"{kept:.1f} + {counted:.0f} us when sampled, one step in {stride}: {share:.2%}")  # fmt: skip


if __name__ == "__main__":
    main()
