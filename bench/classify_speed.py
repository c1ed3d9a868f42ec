"""How many kernel names are told in a second. Fails below the goal.

    python bench/classify_speed.py [rounds]
    classify · python 3.11.7, 2 CPUs, load 4.4, 10,270 new names of 385 letters in the mean …: 27,271 names/s …

Names are those of the corpus beside the repository (or of one's own: NAMES=file, one a line), with their numbers
altered in each round, so that no name comes twice and no answer can be remembered. Time is the process's own.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from pathlib import Path

from pellucid.trace.classify import UNKNOWN, classify

GOAL_PER_S = 20_000
CORPUS = Path(__file__).parents[2] / "shared" / "data" / "kernel_names" / "kernels.jsonl"
NUMBER = re.compile(r"(?<=[<, ])\d{1,6}")     # arguments of templates; lengths in mangled names stay, a mark is added


def names() -> list[str]:
    if own := os.environ.get("NAMES"):
        return Path(own).read_text().splitlines()
    return [json.loads(line)["name"] for line in CORPUS.read_text().splitlines()]


def altered(name: str, round_: int) -> str:
    return NUMBER.sub(lambda number: str(int(number[0]) + round_), name) + f"_{round_}"


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    known = names()
    asked = [altered(name, round_) for round_ in range(1, rounds + 1) for name in known]
    classify("")        # rules are read and indexed once in a process
    started_s = time.process_time()
    told = sum(classify(name).category != UNKNOWN for name in asked)
    taken_s = time.process_time() - started_s
    per_s = len(asked) / taken_s
    print(
        f"classify · python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"{len(asked):,} new names of {sum(map(len, asked)) / len(asked):.0f} letters in the mean, {len(set(asked)):,} "
        f"of them different, {told:,} told: {per_s:,.0f} names/s of one core (goal {GOAL_PER_S:,})"
    )
    return 0 if per_s >= GOAL_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
