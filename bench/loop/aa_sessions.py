"""Real sessions in which every candidate is the present configuration: how many would keep anything.

    .venv/bin/python -m bench.loop.aa_sessions OUT.jsonl --workload w.parquet --sessions 5 --candidates 3 --minutes 3
    .venv/bin/python -m bench.loop.aa_sessions OUT.jsonl --workload w.parquet --sessions 5 --apart --noise noise.jsonl

Trials as `pellucid try` and `tune` make them: the same engines, blocks, judge, and error of a session. By itself one
engine is both arms, as for live settings; with `--apart` there are two engines, whose places are exchanged between two
starts, judged with the A/A starts of `--noise` or, without, with some of their own.

A candidate that is found better counts as kept: its verdict on answers is not asked for, which could only refuse it.
Sessions are added to OUT, a line each, so that a run can go on later.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.loop.aa_noise import FLAGS, traffic_options
from pellucid.surface.cli.loop.trial import launcher
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.spend import Spend
from pellucid.verbs.loop.asks import Wish as Traffic
from pellucid.verbs.loop.trial.arms.resident import Resident
from pellucid.verbs.loop.trial.outcome import Outcome
from pellucid.verbs.loop.trial.run import run
from pellucid.verbs.loop.trial.wish import Wish
from tools import real_engine


def told(outcome: Outcome) -> dict[str, object]:
    last = outcome.effect.metrics[0].points[-1] if outcome.pairs and outcome.effect else None
    return {
        "word": outcome.word, "reason": outcome.reason, "pairs_count": len(outcome.pairs),
        "starts_count": len(outcome.starts), "took_s": round(outcome.took_ns / 1e9),
        "ratio": None if last is None else [last.low_ratio, last.ratio, last.high_ratio],
        "troubles": [str(trouble) for trouble in outcome.troubles],
    }  # fmt: skip


def session(asked: argparse.Namespace, home: Path, seed: int, resident: Resident | None) -> list[Outcome]:
    environ = {**os.environ, **real_engine.ENVIRONMENT}
    found: list[Outcome] = []
    for number in range(1, asked.candidates + 1):
        traffic = Traffic(asked.speed, asked.scale_tokens, 1000 * seed + number)
        wish = Wish(
            settings=(), command=real_engine.command(asked.model, 8000, *FLAGS), workload=asked.workload, home=home,
            launcher=launcher, budget_s=60 * asked.minutes, aim=Aim(), block_s=asked.block, traffic=traffic,
            fidelity_s=0.0, spend=Spend(number), live=not asked.apart, resident=resident, noise=asked.noise,
        )  # fmt: skip
        found.append(run(wish, environ, lambda text: print(text, file=sys.stderr, flush=True)))
    return found


def report(lines: Sequence[str]) -> int:
    """Sessions that would have kept something."""
    sessions = [json.loads(line) for line in lines]
    words = [trial["word"] for one in sessions for trial in one["trials"]]
    kept = sum(any(trial["word"] == "better" for trial in one["trials"]) for one in sessions)
    pairs = sum(trial["pairs_count"] for one in sessions for trial in one["trials"])
    counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
    print(f"{len(sessions)} sessions, {len(words)} trials, {pairs} pairs: {counts}; sessions that would keep: {kept}")
    return kept


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    traffic_options(ask)
    ask.add_argument("--sessions", type=int, default=5)
    ask.add_argument("--candidates", type=int, default=3)
    ask.add_argument("--minutes", type=float, default=3.0, help="at most for a candidate, starts included")
    ask.add_argument("--apart", action="store_true", help="two engines")
    ask.add_argument("--noise", type=Path, help="recorded by bench.loop.aa_noise, for --apart")
    asked = ask.parse_args()
    before = asked.out.read_text().splitlines() if asked.out.exists() else []
    resident = None if asked.apart else Resident()
    with tempfile.TemporaryDirectory(prefix="pellucid-aa-") as home:
        try:
            for number in range(len(before), len(before) + asked.sessions):
                trials = session(asked, Path(home), number, resident)
                line = {"session": number, "apart": asked.apart, "began": time.strftime("%Y-%m-%d %H:%M:%S"),
                        "model": asked.model, "workload": asked.workload.name, "speed": asked.speed,
                        "places": trials[0].conditions.places, "load": os.getloadavg()[0],
                        "trials": [told(outcome) for outcome in trials]}  # fmt: skip
                with asked.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        finally:
            if resident is not None:
                resident.end()
    return report(asked.out.read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main())
