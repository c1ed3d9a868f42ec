"""How near the built-in schedule comes to the engine's own: fifty loads drawn at random, token by token.

    .venv/bin/python -m bench.twin.agreement [--loads 50] [--python .venv-engine/bin/python]

Both are asked the same, with the same time for each step; a request counts as differing where any of its tokens came in
another step, or it found another number of tokens in the cache, or was put back another number of times. The goal is
that quantiles of TTFT and TPOT lie within 3 % of each other; where no request differs, they are equal.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from pellucid.collect.vllm.schedule import Schedules
from pellucid.collect.vllm.scheduled import Scheduled, token_ns
from pellucid.sim.engine.request import Ask
from pellucid.sim.outcome import Timed, measures, of_ran
from pellucid.sim.step.seen import Floats
from tools import real_engine
from tools.traffic.loads import both, differing, drawn

GOAL = 0.03
COMPARED = ("ttft_p50_ns", "ttft_p95_ns", "tpot_mean_ns", "tpot_p95_ns", "e2e_p95_ns")


def timed(told: Scheduled, asks: Sequence[Ask]) -> Timed:
    def column(values: Iterable[int]) -> Floats:
        return np.array(list(values), dtype=np.float64)

    served = told.served
    gaps = tuple(np.diff(token_ns(s, told.steps)).astype(np.float64) for s in served)
    return Timed(column(s.arrival_ns for s in served), column(s.first_token_ns for s in served),
                 column(s.last_token_ns for s in served), column(asks[s.request].output_tokens for s in served),
                 gaps)  # fmt: skip


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--loads", type=int, default=50)
    ask.add_argument("--python", default=str(real_engine.PYTHON))
    options = ask.parse_args(arguments)
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {options.loads} loads, {options.python}")
    worst, odd_count, requests_count, steps_count, put_back_count = 0.0, 0, 0, 0, 0
    with Schedules(options.python) as engine:
        for seed in range(options.loads):
            settings, asks = drawn(seed)
            ran, told = both(engine, settings, asks)
            odd = differing(ran, told)
            one, other = measures(of_ran(ran, asks)), measures(timed(told, asks))
            off = max(abs(a / b - 1) for name in COMPARED if (a := one[name]) and (b := other[name]))
            worst, odd_count = max(worst, off), odd_count + len(odd)
            requests_count, steps_count = requests_count + len(asks), steps_count + len(ran.ends_ns)
            put_back_count += ran.preemptions_count
            if odd:
                print(f"load {seed}: {len(odd)} requests differ, quantiles by up to {off:.2%}", flush=True)
    print(f"{requests_count:,} requests, {steps_count:,} steps, {put_back_count:,} put back: {odd_count:,} requests "
          f"differ; quantiles by up to {worst:.2%} (goal {GOAL:.0%})")  # fmt: skip
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
