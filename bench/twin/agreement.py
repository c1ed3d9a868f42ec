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

import numpy as np

from pellucid.collect.vllm.schedule import Schedules
from pellucid.sim.outcome import Timed, measures, of_ran
from tools import real_engine
from tools.traffic.loads import both, differing, drawn

GOAL = 0.03
COMPARED = ("ttft_p50_ns", "ttft_p95_ns", "tpot_mean_ns", "tpot_p95_ns", "e2e_p95_ns")


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
            theirs = Timed(
                *(np.array([getattr(s, name) for s in told.served], dtype=np.float64)
                  for name in ("arrival_ns", "first_token_ns", "last_token_ns")),
                np.array([asks[s.request].output_tokens for s in told.served], dtype=np.float64),
                tuple(np.zeros(1) for _ in told.served),
            )  # fmt: skip
            one, other = measures(of_ran(ran, asks)), measures(theirs)
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
