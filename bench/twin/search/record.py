"""The grids of cases.toml, measured on real engines: two cases at a time, each engine on a core of its own.

    .venv/bin/python -m bench.twin.search.record [dense-conversation dense-code]

For each case: the present configuration is observed under the case's traffic, in a recording of its own that the twin
may learn from (grids/KEY/run). Then an engine is started, every point is set while it runs and given the same block of
traffic (same times and lengths, other tokens), in an order drawn once, and all of them once more. After that the best
five, and the present configuration, are given five blocks more each, in turn: "again". A block is cut off when it takes
three times as long as the present configuration's. What is recorded already is left as it is: a recording that was cut
off goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from bench.twin.search.grid import GRIDS, Case, Measured, Point, cases, read
from pellucid.collect.client.play import Target
from pellucid.core.run import run_folders
from pellucid.surface.cli.loop.trial import launcher
from pellucid.tune.command import Command
from pellucid.tune.effect.aim import Aim
from pellucid.verbs.loop.asks import Wish as Traffic
from pellucid.verbs.loop.trial.arms.booted import Booted, boot
from pellucid.verbs.loop.trial.arms.shared import shared
from pellucid.verbs.loop.trial.block import Served, serve
from pellucid.verbs.loop.trial.lab import Lab
from pellucid.verbs.loop.trial.pieces import Pieces
from pellucid.verbs.loop.trial.wish import Wish
from pellucid.verbs.predict.asks import asks_of
from tools import real_engine
from tools.recording import pellucid

OBSERVED_BLOCKS, GRID_BLOCKS, AGAIN_BLOCKS, BEST = 6, 2, 5, 5
PRESENT_EVERY = 12           # points: the present configuration once more, against drift
LIMIT_TIMES, LEAST_LIMIT_S = 3.0, 30.0
# What a twin reads of a run.
KEPT = ("run.json", "checksums.txt", "facts-", "sources-", "steps-", "step_runs-", "requests-", "request_events-",
        "prefix_lookups-")  # fmt: skip


def flags(case: Case) -> tuple[str, ...]:
    most = case.named(case.present)
    return ("--max-model-len", "2048", "--max-num-seqs", str(most["sequence_cap"]), "--max-num-batched-tokens",
            str(most["scheduled_token_budget"]), "--load-format", "dummy")  # fmt: skip


class Site:
    """A case on a core of its own."""

    def __init__(self, case: Case, place: int, home: Path) -> None:
        workload = home / f"{case.key}.parquet"
        home.mkdir(parents=True, exist_ok=True)
        words = pellucid("workload", "import", str(case.workload), str(workload), "--force")
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PELLUCID_HOME": str(home)})
        self.case, self.home, self.place, self.number = case, home, place, 0
        wish = Wish((), real_engine.command(case.model, 8000, *flags(case)), workload, home, launcher, 0.0, Aim(),
                    block_s=case.seconds, traffic=Traffic(case.speed, case.scale_tokens, 0))  # fmt: skip
        self.lab = Lab.of(wish, {**os.environ, **real_engine.ENVIRONMENT}, "grid")

    def booted(self, start: int, control: bool) -> Booted:
        """Raises SystemExit with its trouble."""
        place = self.lab.places[self.place]
        one = self.lab.start("present", Command(self.lab.wish.command), place, start, control=control)
        found = boot([one], 600.0)[0]
        if not isinstance(found, Booted):
            raise SystemExit(f"{self.case.key}: {found}")
        say(f"{self.case.key}: serves after {found.boot_s:.0f} s")
        return found

    def block(self, target: Target, pieces: Pieces, limit_s: float) -> Served:
        self.number += 1
        time.sleep(self.lab.wish.pause_s)
        return serve(target, pieces.piece(self.number * len(pieces.windows)), limit_s, ())

    def observe(self) -> None:
        """The run that a twin learns from: the present configuration, under this traffic."""
        engine = self.booted(0, control=False)
        try:
            pieces = self.lab.pieces(engine)
            for _ in range(OBSERVED_BLOCKS):
                self.block(engine.target, pieces, 120.0)
        finally:
            engine.end()
        (run,) = run_folders(engine.start.folder)
        kept = self.case.folder / "run"
        kept.mkdir(parents=True)
        for path in run.iterdir():
            if path.name.startswith(KEPT):
                shutil.copy(path, kept)

    def measure(self, most: int) -> None:
        engine = self.booted(1, control=True)
        try:
            self._measure(engine, most)
        finally:
            engine.end()

    def _measure(self, engine: Booted, most: int) -> None:
        case, pieces = self.case, self.lab.pieces(engine)
        out = case.folder / "grid.jsonl"
        first = pieces.windows[0] * case.seconds * 1e9
        asks = [asdict(a) for a in asks_of(pieces.first.requests) if first <= a.arrival_ns < first + case.seconds * 1e9]
        conditions = {
            "machine": self.lab.machine.name, "place": self.lab.places[self.place].name, "block_s": case.seconds,
            "command": list(self.lab.wish.command), "workload": case.workload.name, "speed": case.speed,
            "scale_tokens": case.scale_tokens, "load": os.getloadavg()[0],
        }  # fmt: skip
        if not out.exists():
            out.write_text(json.dumps({"conditions": conditions, "asks": asks}) + "\n")
        before = read(case).rounds
        limit_s = 120.0
        _, arm = shared(engine, {})      # one desk: who has set a value may set it anew

        def one(point: Point, kind: str) -> None:
            nonlocal limit_s
            began_s = time.monotonic()
            replace(arm, values=case.named(point)).use()
            served = self.block(engine.target, pieces, limit_s)
            line = {"round": kind, "point": point, **asdict(served.block), "failed": served.overdue_count,
                    "client_bound": served.client_bound, "took_s": time.monotonic() - began_s}  # fmt: skip
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            if point == case.present:
                limit_s = max(LEAST_LIMIT_S, LIMIT_TIMES * served.block.duration_ns / 1e9)

        one(case.present, "warm")
        order = [p for p in case.points() if p != case.present]
        random.Random(case.key).shuffle(order)
        turns = [p for turn in range(GRID_BLOCKS) for p in order[:most] if len(before["grid"].get(p, ())) <= turn]
        for some in _batched(turns):
            one(case.present, "grid")
            for point in some:
                one(point, "grid")
            say(f"{case.key}: {len(some)} points more")
        for _ in range(AGAIN_BLOCKS - min(map(len, before["again"].values()), default=0)):
            for point in best(read(case), case):
                one(point, "again")
        say(f"{case.key}: done")


def _batched(points: list[Point]) -> list[list[Point]]:
    return [points[i : i + PRESENT_EVERY] for i in range(0, len(points), PRESENT_EVERY)]


def best(measured: Measured, case: Case) -> list[Point]:
    limits = measured.limits(case.present)
    ranked = sorted(measured.rounds["grid"], key=lambda p: -measured.worth(p, limits))
    return [case.present, *[p for p in ranked if p != case.present][:BEST]]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def record(case: Case, place: int, home: Path, most: int) -> None:
    site = Site(case, place, home / case.key)
    if not (case.folder / "run").exists():
        site.observe()
    site.measure(most)


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("cases", nargs="*")
    ask.add_argument("--points", type=int, default=10**6, help="the first so many of the order: a rehearsal")
    asked, known = ask.parse_args(arguments), cases()
    wanted = [known[name] for name in asked.cases or known]
    GRIDS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pellucid-grid-") as home:
        for i in range(0, len(wanted), 2):
            with ThreadPoolExecutor(2) as pool:
                both = [pool.submit(record, case, place, Path(home), asked.points)
                        for place, case in enumerate(wanted[i : i + 2])]  # fmt: skip
                for one in both:
                    one.result()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
