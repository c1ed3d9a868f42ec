"""Does a request's share of a step mean anything? Take it out of a repeated batch: the step must shrink by its share.

    .venv/bin/python -m bench.attribution [--rounds 8]

A blocker prompt keeps the engine busy while a batch of prompts of different lengths arrives, so that one step computes
them all; then the same batch without one of them. Rounds alternate. The share is the one `step_shares` gives; the
change is that of the medians of the workers' time. Goal of DESIGN §5: the two agree within 25 %.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
from pathlib import Path

from pellucid.store.read import open_run
from pellucid.testing.traffic import Ask, send
from tools import real_engine
from tools.recording import serve

MODEL = "tiny-dense"
FLAGS = ("--max-model-len", "4096", "--max-num-seqs", "16", "--max-num-batched-tokens", "4096",
         "--load-format", "dummy", "--no-enable-prefix-caching")  # fmt: skip
BLOCKER = 3000
BATCH = {"a": 300, "b": 500, "c": 700, "taken": 900}


def batch(pick: random.Random, names: list[str], tag: str) -> list[Ask]:
    def prompt(tokens: int) -> list[int]:
        return [pick.randrange(3, 4000) for _ in range(tokens)]

    asks = [Ask(0.0, prompt(BLOCKER), 1, request_id=f"{tag}-blocker")]
    return asks + [Ask(0.02, prompt(BATCH[n]), 1, request_id=f"{tag}-{n}") for n in names]


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--rounds", type=int, default=8)
    asked = ask.parse_args()
    pick = random.Random(1)
    with tempfile.TemporaryDirectory() as home:
        served = serve(MODEL, FLAGS, Path(home), Path(home) / "engine.log")
        try:
            for n in range(asked.rounds):
                send(served.url, MODEL, batch(pick, list(BATCH), f"whole{n}"))
                send(served.url, MODEL, batch(pick, [k for k in BATCH if k != "taken"], f"part{n}"))
        finally:
            served.end()
        run = open_run(served.folder())
        steps = run.rows("""
            SELECT s.step, s.worker_ns, max(x.share_ratio) FILTER (r.request_id LIKE '%-taken%') AS share_ratio,
                   count(*) AS requests_count, sum(x.tokens) AS tokens
            FROM step_shares x JOIN requests r USING (process, request) JOIN steps s USING (process, step)
            WHERE r.request_id NOT LIKE '%blocker%' GROUP BY ALL""")
    whole = [s for s in steps if s["requests_count"] == len(BATCH) and s["tokens"] == sum(BATCH.values())]
    part = [s for s in steps if s["requests_count"] == len(BATCH) - 1 and s["share_ratio"] is None]
    if len(whole) < 3 or len(part) < 3:
        print(f"only {len(whole)} whole and {len(part)} partial batches ran in one step: no answer")
        return 1
    with_ns, without_ns = (statistics.median(s["worker_ns"] for s in group) for group in (whole, part))
    share, change = whole[0]["share_ratio"], 1 - without_ns / with_ns
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {MODEL}, {real_engine.dtype()}, prompts of "
          f"{list(BATCH.values())} tokens, {len(whole)} whole and {len(part)} partial batches, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"share of the request taken out  {share:.3f}\nthe step became shorter by      {change:.3f} "
          f"({with_ns / 1e6:.1f} → {without_ns / 1e6:.1f} ms, medians)\noff by                          "
          f"{change / share - 1:+.0%} (goal within 25 %)")  # fmt: skip
    return 0 if abs(change / share - 1) <= 0.25 else 1


if __name__ == "__main__":
    sys.exit(main())
