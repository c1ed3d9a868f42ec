"""The grids: what a search may turn, and what came of each point.

    case = cases()["dense-code"]
    case.points()                       [{"sequence_cap": 4, "scheduled_token_budget": 128, …}, …]
    measured = read(case)               a line a block of DATA/KEY/grid.jsonl
    measured.worth(point, limits)       how good it is

A point is good by its output tokens a second, if the p95 of ITL is at most half of what it is with the present
configuration: smoother answers at little cost. Those that break that come after all that keep it. (A limit close to
what most points have, as a tenth above the present configuration's, is kept or broken by chance from block to block.)
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools import real_engine

HERE = Path(__file__).parent
GRIDS = HERE / "grids"
SHARED = real_engine.ROOT.parent / "shared" / "data"
LIMIT_RATIO = 0.5
LIMITED = ("itl_p95_ns",)
WANTED = "output_tokens_per_s"
Point = tuple[int, ...]                # values in the order of the dials
Measures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    key: str
    model: str
    workload: Path
    scale_tokens: float
    speed: float
    seconds: float
    dials: Mapping[str, tuple[int, ...]]

    @property
    def present(self) -> Point:
        """What the engine is started with: all there is of everything, and no threshold."""
        return tuple(0 if 0 in ladder else max(ladder) for ladder in self.dials.values())

    def points(self) -> list[Point]:
        return list(itertools.product(*self.dials.values()))

    def named(self, point: Point) -> dict[str, int]:
        return dict(zip(self.dials, point, strict=True))

    @property
    def folder(self) -> Path:
        return GRIDS / self.key


def cases() -> dict[str, Case]:
    told = tomllib.loads((HERE / "cases.toml").read_text())
    dials = {name: tuple(ladder) for name, ladder in told["dials"].items()}
    return {c["key"]: Case(c["key"], c["model"], SHARED / c["workload"], c["scale_tokens"], c["speed"], told["seconds"],
                           dials) for c in told["case"]}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    conditions: Mapping[str, Any]
    asks: Sequence[Mapping[str, Any]]              # of the block that every point was given
    rounds: Mapping[str, Mapping[Point, list[Measures]]]      # "grid", "again" → point → its blocks

    def limits(self, present: Point) -> dict[str, float]:
        """By the present configuration's own blocks of the grid."""
        blocks = self.rounds["grid"][present]
        return {name: LIMIT_RATIO * median(b[name] for b in blocks) for name in LIMITED}

    def wanted(self, point: Point) -> float:
        """What is wanted of a point that was measured again, whatever it breaks."""
        return median(float(block[WANTED]) for block in self.rounds["again"][point])

    def worth(self, point: Point, limits: Mapping[str, float], rounds: str = "grid") -> float:
        return median(worth(b, limits) for b in self.rounds[rounds][point])


def worth(block: Measures, limits: Mapping[str, float]) -> float:
    """Output tokens a second where the limits are kept; else below zero, the further beyond the lower."""
    broken = sum(max(0.0, (block[name] or float("inf")) / limit - 1) for name, limit in limits.items())
    if broken or not block[WANTED] or block.get("failed"):
        return -1.0 - min(broken, 1e6)
    return float(block[WANTED])


def read(case: Case) -> Measured:
    """Raises FileNotFoundError where the grid was not recorded."""
    head, *lines = map(json.loads, (case.folder / "grid.jsonl").read_text().splitlines())
    rounds: dict[str, dict[Point, list[Measures]]] = {"grid": {}, "again": {}}
    for line in lines:
        if line["round"] not in rounds:
            continue        # the first blocks of an engine
        rounds[line["round"]].setdefault(tuple(line["point"]), []).append(line)
    return Measured(head["conditions"], head["asks"], rounds)
