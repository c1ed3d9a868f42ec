"""The corpus of real kernel names with their labels, read in place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from tests.conftest import shared_data


@dataclass(frozen=True, slots=True)
class Known:
    name: str
    category: str
    also: tuple[str, ...]        # other categories that count as right
    ambiguous: bool              # `unknown` is right too


@cache
def corpus() -> tuple[Known, ...]:
    lines = map(json.loads, shared_data("kernel_names/kernels.jsonl").read_text().splitlines())
    return tuple(
        Known(r["name"], r["category"], tuple(r.get("also_accept", ())), r.get("ambiguous", False)) for r in lines
    )
