"""What two engines of one configuration differ by, kept between trials: a file for each set of conditions.

    path = place(home, conditions)         $PELLUCID_HOME/noise/3f2a….jsonl, in the format of tune/effect/noise.py
    add(path, conditions, measured)        the pairs of one more start
    pairs(path)                            all of them, each start with a number of its own

A file is of one boot of the machine: its times are of that boot's clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.errors import Failed
from pellucid.tune.effect.noise import Noise, Recorded, block_line, header_line, on_two_engines, read
from pellucid.tune.effect.pairs import Pair

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Timed:
    """A pair, and when its blocks began."""

    pair: Pair
    a_started_ns: int
    b_started_ns: int

    def blocks(self, start: int) -> list[Recorded]:
        """In the order of time; arm a is engine 0."""
        both = [
            Recorded(0, start, self.a_started_ns, self.pair.a),
            Recorded(1, start, self.b_started_ns, self.pair.b),
        ]
        return sorted(both, key=lambda r: r.started_ns)


def place(home: Path, conditions: Mapping[str, str]) -> Path:
    boot = BOOT_ID.read_text().strip()
    digest = hashlib.sha256(json.dumps([boot, *sorted(conditions.items())]).encode()).hexdigest()
    return home / "noise" / f"{digest[:16]}.jsonl"


def add(path: Path, conditions: Mapping[str, str], measured: Sequence[Timed]) -> None:
    """As one more start at the file's end. Raises Failed where the disk refuses, CannotAnswer where it is damaged."""
    start = starts_count(path)
    lines = [block_line(block) for one in measured for block in one.blocks(start)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"".join([*([] if file.tell() else [header_line(dict(conditions))]), *lines]))
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror}") from error


def starts_count(path: Path) -> int:
    """Numbers that are taken."""
    return 1 + max((block.start for block in noise(path).blocks), default=-1)


def pairs(path: Path) -> list[Pair]:
    """A/A pairs: engine 0 is a. Neighbours on one engine say nothing of two, and are not among them."""
    found = []
    for start in on_two_engines(noise(path)):
        for each in start:
            ab = each.first.engine == 0
            a, b = (each.first, each.second) if ab else (each.second, each.first)
            found.append(Pair(a.block, b.block, "ab" if ab else "ba", each.first.start))
    return found


def noise(path: Path) -> Noise:
    """Empty where there is no file. Raises CannotAnswer where it is damaged."""
    if not path.exists():
        return Noise({}, ())
    with path.open("rb") as file:
        return read(file)
