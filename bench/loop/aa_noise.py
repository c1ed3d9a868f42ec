"""Hours of noise: two engines of one configuration, block after block, in the format of tune/effect/noise.py.

    .venv/bin/python -m bench.loop.aa_noise noise.jsonl --workload chat.parquet --minutes 120
    .venv/bin/python -m bench.loop.aa_noise noise.jsonl --workload chat.parquet --minutes 60      goes on where it ended
    … --block 10 --speed 0.5 --scale-tokens 0.1 -- python -m my_engine --model …             another engine

Engines are booted, placed and loaded as `pellucid try` does it, and started anew every `--restart-minutes`. Blocks come
in the order 0 0 1 1 0 0 1 1, so that there are neighbours on one engine and on two; all blocks of a start have the same
times and lengths, and tokens of their own. A kill leaves the blocks that were written, and no engine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.surface.cli.loop.trial import launcher
from pellucid.tune.command import Command
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.noise import Recorded, block_line, header_line, read
from pellucid.verbs.loop.asks import Wish as Traffic
from pellucid.verbs.loop.trial.arms.booted import Booted, boot, seen
from pellucid.verbs.loop.trial.arms.trouble import Trouble
from pellucid.verbs.loop.trial.lab import Lab, noise_conditions
from pellucid.verbs.loop.trial.noise import starts_count
from pellucid.verbs.loop.trial.pairing import Bench
from pellucid.verbs.loop.trial.wish import Wish
from tools import real_engine

BLOCKS_MOST = 1_000_000     # of a start
FLAGS = ("--max-num-seqs", "16", "--max-model-len", "2048")


@contextmanager
def two_engines(lab: Lab, number: int) -> Iterator[tuple[Booted, Booted]]:
    """Place 0 and place 1, of one configuration. Raises CannotAnswer with the trouble of one that does not serve."""
    command = Command(lab.wish.command)
    first, second = lab.places
    starts = [lab.start("present", command, first, number), lab.start("candidate", command, second, number)]
    found = boot(starts, lab.wish.boot_limit_s)
    good = [one for one in found if isinstance(one, Booted)]
    try:
        if len(good) < len(found):
            raise CannotAnswer("; ".join(str(one) for one in found if not isinstance(one, Booted)))
        yield good[0], good[1]
    finally:
        for one in good:
            one.end()


def record(lab: Lab, out: Path, number: int, until_s: float) -> int:
    """One start's blocks. How many there were."""
    with two_engines(lab, number) as engines:
        pieces = lab.pieces(engines[0])
        conditions = noise_conditions(lab.conditions(seen(engines[0]), engines[0], pieces.left_out))
        if not out.exists():
            out.write_bytes(header_line(conditions))
        elif (before := read(out.read_bytes().splitlines()).conditions) != conditions:
            odd = [f"{k}: {before.get(k)} and {v}" for k, v in conditions.items() if before.get(k) != v]
            raise AskedWrongly(f"{out} was recorded under other conditions: {'; '.join(odd)}. Give another file")
        bench = Bench(*engines, pieces, lab.wish, number)
        if trouble := bench.warm():
            raise CannotAnswer(str(trouble))
        count = 0
        while time.monotonic() < until_s:
            engine = count // 2 % 2
            turn = number * BLOCKS_MOST + count       # the window stays, and its tokens are drawn anew each time
            served = bench.block(engines[engine], turn * len(pieces.windows) + number % len(pieces.windows), 0)
            if isinstance(served, Trouble):
                print(f"start {number}, block {count}: {served}", file=sys.stderr)
                break
            with out.open("ab") as file:
                file.write(block_line(Recorded(engine, number, served.started_ns, served.block)))
            count += 1
        slow = len(bench.client_bound)
        print(f"start {number}: {count} blocks, in {slow} the client was slow", file=sys.stderr, flush=True)
    return count


def traffic_options(ask: argparse.ArgumentParser) -> None:
    """Where to write, and what is sent to which model: of every bench of engines that are alike."""
    ask.add_argument("out", type=Path)
    ask.add_argument("--workload", type=Path, required=True)
    ask.add_argument("--block", type=float, default=10.0, help="seconds")
    ask.add_argument("--speed", type=float, default=1.0)
    ask.add_argument("--scale-tokens", type=float, default=1.0)
    ask.add_argument("--model", default="tiny-dense", help="of this repository, where no command is given")


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    traffic_options(ask)
    ask.add_argument("--minutes", type=float, default=120.0)
    ask.add_argument("--restart-minutes", type=float, default=20.0)
    ask.add_argument("--seed", type=int, default=0)
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    asked, theirs = ask.parse_args(words[:cut]), tuple(words[cut + 1 :])
    command = theirs or real_engine.command(asked.model, 8000, *FLAGS)
    environ = {**os.environ, **({} if theirs else real_engine.ENVIRONMENT)}
    end_s, blocks = time.monotonic() + asked.minutes * 60, 0
    with tempfile.TemporaryDirectory(prefix="pellucid-noise-") as home:
        wish = Wish(
            settings=(), command=command, workload=asked.workload, home=Path(home), launcher=launcher, budget_s=0.0,
            aim=Aim(), block_s=asked.block, traffic=Traffic(asked.speed, asked.scale_tokens, asked.seed),
        )  # fmt: skip
        while time.monotonic() < end_s:
            lab = Lab.of(wish, environ, "noise")
            number = starts_count(asked.out)
            blocks += record(lab, asked.out, number, min(end_s, time.monotonic() + asked.restart_minutes * 60))
    print(json.dumps({"out": str(asked.out), "blocks_count": blocks, "starts_count": starts_count(asked.out),
                      "places": [p.name for p in lab.places], "load": os.getloadavg()[0]}))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
