"""`make demo`: a real engine, a bottleneck drawn by chance, and whether `pellucid why` names it.

    make demo                      draws a scenario by a random seed and prints the seed
    make demo SEED=7               the same scenario and the same traffic again
    make demo SCENARIO=few-blocks  a certain one

`why` is told the recording, not the scenario. It must find exactly the bottleneck that was made; a wrong or an extra
finding ends the demo with exit code 1. The recording stays, to be explored.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from pathlib import Path

from pellucid.core.settings import home
from tools.real_engine import ROOT
from tools.recording import findings, record, why
from tools.scenarios import DEMO, SCENARIOS, Scenario

LOG = ROOT / ".demo" / "engine.log"


def draw(seed: int, wanted: str) -> Scenario:
    return SCENARIOS[wanted or random.Random(seed).choice(DEMO)]


def verdict(expected: str | None, found: set[str]) -> tuple[bool, str]:
    """Whether exactly the expected rule was found, and the sentence that says so."""
    wanted = {expected} if expected else set()
    if found == wanted:
        return True, f"found what was made: {expected or 'nothing, the engine is healthy'}"
    missed, extra = sorted(wanted - found), sorted(found - wanted)
    parts = [f"missed {', '.join(missed)}"] * bool(missed) + [f"found {', '.join(extra)} too"] * bool(extra)
    return False, f"wrong: {'; '.join(parts)}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--scenario", default="", choices=["", *SCENARIOS])
    options = parser.parse_args(arguments)
    scenario = draw(options.seed, options.scenario)
    again = f"make demo SEED={options.seed}" + (f" SCENARIO={options.scenario}" if options.scenario else "")
    print(f"seed {options.seed}: {again}\n", flush=True)

    began = time.monotonic()
    served, replies = record(scenario, options.seed, home(), LOG, lambda line: print(line, flush=True))
    folder, answered, tokens = served.folder(), sum(r.ok for r in replies), sum(r.output_tokens or 0 for r in replies)
    print(f"{answered} requests answered, {tokens} tokens, {time.monotonic() - began:.0f} s in all\n")
    if served.stubborn:
        print(f"these processes had to be killed: {[m.command for m in served.stubborn]}", file=sys.stderr)

    if not answered:
        first = next(iter(replies), None)
        print(f"the engine answered nothing: {first.error or first.status if first else 'no request was sent'}\n{LOG}")
        return 1

    print(f"$ pellucid why --run {folder.name}\n{why(folder, home())}")
    right, sentence = verdict(scenario.finds, findings(folder, home()))
    print(f"scenario {scenario.name}: {scenario.says}\n{sentence}\n\n{explore(folder)}")
    return 0 if right and not served.stubborn else 1


def explore(folder: Path) -> str:
    return "\n".join((
        f"The recording stays in {folder}. To explore it:",
        f"  .venv/bin/pellucid requests --run {folder.name}",
        f"  .venv/bin/pellucid steps --run {folder.name}",
        f"  .venv/bin/pellucid why --run {folder.name} --request ID",
    ))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
