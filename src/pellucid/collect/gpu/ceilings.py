"""Asks the engine's own Python how fast its device is (`measure.py`, a child process of its own).

    measure("/opt/engine/bin/python", environ)
    → Found("NVIDIA H200", rates={"copy_bytes_per_s": 4.22e12, …}, missing={}, conditions={"torch": "2.11.0", …})

Never in the engine, and by itself only on a device of which nobody holds memory: measuring takes all of it for seconds.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.collect.engine_python import run_python
from pellucid.collect.gpu import measure as program
from pellucid.core.errors import CannotAnswer, Failed

LIMIT_S = 300.0         # chosen: six quantities of two seconds each, and torch from a cold disk


@dataclass(frozen=True, slots=True)
class Found:
    device: str                     # as the driver spells it
    rates: dict[str, float]         # quantity → the most a batch reached, per second
    spread: dict[str, float]        # quantity → (most - least) / median of the batches
    missing: dict[str, str]         # quantity → why it could not be measured
    conditions: dict[str, Any]


def measure(
    python: str, environ: Mapping[str, str], options: Sequence[str] = (), limit_s: float = LIMIT_S
) -> Found:
    """`options`: of the program. Raises CannotAnswer where it refuses, Failed where it broke."""
    try:
        done = run_python([python, str(program.__file__), *options], environ, limit_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{python} measured for more than {limit_s:.0f} s and was ended") from error
    said = _last_object(done.stdout)
    if said is None:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failed(f"{python} measured nothing: {last}")
    if "refused" in said:
        raise CannotAnswer(f"no ceilings measured: {said['refused']}. Try: {said['do']}")
    return found(said)


def found(said: Mapping[str, Any]) -> Found:
    rates = {name: told["most_per_s"] for name, told in said["rates"].items()}
    if odd := [name for name, per_s in rates.items() if not (math.isfinite(per_s) and per_s > 0)]:
        raise Failed(f"what was measured is no rate: {', '.join(odd)}")
    spread = {name: (t["most_per_s"] - t["least_per_s"]) / t["median_per_s"] for name, t in said["rates"].items()}
    return Found(said["device"], rates, spread, dict(said["missing"]), dict(said["conditions"]))


def _last_object(text: str) -> dict[str, Any] | None:
    """Libraries may print notes before it."""
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            try:
                told = json.loads(line)
            except ValueError:
                return None
            return told if isinstance(told, dict) else None
    return None
