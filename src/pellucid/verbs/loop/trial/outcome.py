"""What came of a trial: the verdict, what it rests on, and under which conditions. A frozen record, and its JSON.

    outcome.word       better · worse · no difference · inconclusive, or the candidate's trouble: does not boot …
    outcome.json()     {"trial_id": "20261130-091500-a1b2", "word": "worse", "reason": "…", "pairs": […], …}
    keep(outcome)      outcome.folder/outcome.json, as a whole or not at all
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.core.whole import replacing
from pellucid.tune.effect.judge import Effect
from pellucid.tune.effect.pairs import Pair
from pellucid.tune.effect.requests import Spread
from pellucid.tune.fidelity.verdict import Fidelity
from pellucid.verbs.loop.trial.arms.trouble import Trouble

FILE = "outcome.json"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What has to be told beside any number of a trial."""

    machine: str
    places: tuple[str, ...]          # of the two engines, which they exchange; one where one engine was both arms
    engine: str
    engine_version: str
    model: str
    command: tuple[str, ...]
    workload: str
    traffic: dict[str, Any]          # speed, share of its tokens, seed …
    block_ns: int
    left_out: dict[str, int]         # reason → requests of the workload that were not sent


@dataclass(frozen=True, slots=True)
class StartOf:
    """Two engines of one start, or one."""

    number: int
    kind: str                        # "trial", or "noise": both arms were the present configuration
    places: tuple[str, ...]          # of the present configuration, of the other arm; one where that is one engine
    boot_s: float
    pairs_count: int


@dataclass(frozen=True, slots=True)
class Outcome:
    trial_id: str
    began_ns: int                    # wall clock, UNIX ns
    took_ns: int
    candidate: str                   # "max_running_requests=64"
    settings: dict[str, int | float | str | bool]
    word: str
    reason: str
    conditions: Conditions
    starts: tuple[StartOf, ...]
    pairs: tuple[Pair, ...]
    effect: Effect | None            # None where no pair was measured
    fidelity: Fidelity | None        # the verdict on answers; None where it was not asked for
    fidelity_blind: str              # why it was not asked for, "" where it was
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]
    folder: Path                     # logs and recordings: a folder for each engine that was started
    requests: tuple[Spread, ...] = ()     # latencies of single requests, of the trial's own pairs

    def json(self) -> dict[str, Any]:
        said = asdict(self)
        said["fidelity"] = self.fidelity.json() if self.fidelity else None
        said["folder"] = str(self.folder)
        return said


def keep(outcome: Outcome) -> Path:
    """Raises Failed where the disk refuses."""
    path = outcome.folder / FILE
    with replacing(path) as part:
        part.write_text(json.dumps(outcome.json(), indent=1, ensure_ascii=False))
    return path
