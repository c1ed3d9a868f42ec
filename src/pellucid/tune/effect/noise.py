"""The file of recorded noise: blocks of engines that all had one configuration, hours of them, in the order of time.

JSON lines. The first says what was recorded, each other is a block:

    {"format": "pellucid-noise/1", "conditions": {"machine": "2 cores", "engine": "…", "workload": "…"}}
    {"engine": 0, "start": 0, "started_ns": 81000000000, "block": {"output_tokens_per_s": 91.2, "tpot_mean_ns": 8e7, …}}

| key        | is                                                                                              |
|------------|-------------------------------------------------------------------------------------------------|
| engine     | 0 or 1: the place of one of two resident engines                                                |
| start      | counts from 0; one number for as long as the same two processes live                            |
| started_ns | CLOCK_MONOTONIC at the block's beginning; never falls within the file                           |
| block      | the fields of `pairs.Block`, null where nobody saw a value; failed blocks are kept as they were |

Record the places in the order 0 0 1 1 0 0 1 1 …, with the traffic, the length and the pauses of a trial: then there are
neighbours on one engine, for live knobs, and neighbours on two. Nothing is opened here: lines in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from pellucid.core.errors import CannotAnswer
from pellucid.tune.effect.pairs import Block

FORMAT = "pellucid-noise/1"


@dataclass(frozen=True, slots=True)
class Header:
    format: str
    conditions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A block, and where and when it was measured."""

    engine: int
    start: int
    started_ns: int
    block: Block


@dataclass(frozen=True, slots=True)
class Noise:
    conditions: dict[str, str]
    blocks: tuple[Recorded, ...]

    @property
    def measured_ns(self) -> int:
        """Time in blocks: pauses and starts do not count."""
        return sum(recorded.block.duration_ns for recorded in self.blocks)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two blocks next to each other in time, of one configuration: an A/A pair whose names are still to be given."""

    first: Recorded
    second: Recorded


def header_line(conditions: dict[str, str]) -> bytes:
    return msgspec.json.encode(Header(FORMAT, conditions)) + b"\n"


def block_line(recorded: Recorded) -> bytes:
    return msgspec.json.encode(recorded) + b"\n"


def read(lines: Iterable[bytes]) -> Noise:
    """The noise in a file's lines. Raises CannotAnswer with the line that does not fit."""
    header: Header | None = None
    blocks: list[Recorded] = []
    for number, line in enumerate(lines, 1):
        try:
            if header is None:
                header = msgspec.json.decode(line, type=Header)
                continue
            blocks.append(msgspec.json.decode(line, type=Recorded))
        except msgspec.DecodeError as error:
            raise CannotAnswer(f"noise, line {number}: {error}. The format is on top of tune/effect/noise.py") from None
        if len(blocks) > 1 and blocks[-1].started_ns < blocks[-2].started_ns:
            raise CannotAnswer(f"noise, line {number}: began before the block of the line above. Sort by started_ns")
    if header is None or header.format != FORMAT:
        raise CannotAnswer(f"noise: the first line has no format {FORMAT}. Record it anew, or convert it")
    return Noise(conditions=header.conditions, blocks=tuple(blocks))


def on_one_engine(noise: Noise) -> list[list[Neighbours]]:
    """Neighbours on the same process; a list for each process, in the order of time. No block is in two of them."""
    series: dict[tuple[int, int], list[Neighbours]] = {}
    for pair in _neighbours(noise, same_engine=True):
        series.setdefault((pair.first.start, pair.first.engine), []).append(pair)
    return list(series.values())


def on_two_engines(noise: Noise) -> list[list[Neighbours]]:
    """Neighbours on the two engines of one start; a list for each start, in the order of time."""
    series: dict[int, list[Neighbours]] = {}
    for pair in _neighbours(noise, same_engine=False):
        series.setdefault(pair.first.start, []).append(pair)
    return list(series.values())


def _neighbours(noise: Noise, same_engine: bool) -> Iterable[Neighbours]:
    at = 0
    while at + 1 < len(noise.blocks):
        first, second = noise.blocks[at], noise.blocks[at + 1]
        is_one = first.start == second.start and (first.engine == second.engine) is same_engine
        if is_one:
            yield Neighbours(first, second)
        at += 2 if is_one else 1
