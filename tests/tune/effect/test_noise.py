from __future__ import annotations

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.tune.effect.noise import Recorded, block_line, header_line, on_one_engine, on_two_engines, read
from pellucid.tune.effect.pairs import NS_PER_S
from tests.tune.effect.made import FAILED, PLAIN, SILENT

PLACES = [(0, 0), (0, 0), (1, 0), (1, 0), (0, 0), (0, 1), (1, 1), (0, 1)]      # engine and start
BLOCKS = [
    Recorded(engine, start, at * 10 * NS_PER_S, (PLAIN, FAILED, SILENT)[at % 3])
    for at, (engine, start) in enumerate(PLACES)
]
LINES = [header_line({"machine": "2 cores"}), *(block_line(block) for block in BLOCKS)]


def test_what_is_written_is_read() -> None:
    noise = read(LINES)
    assert noise.blocks == tuple(BLOCKS) and noise.conditions == {"machine": "2 cores"}
    assert noise.measured_ns == 80 * NS_PER_S


def numbers(found: object) -> list[list[tuple[int, int]]]:
    series = found if isinstance(found, list) else []
    return [[(BLOCKS.index(pair.first), BLOCKS.index(pair.second)) for pair in one] for one in series]


def test_neighbours_on_one_engine_are_of_one_process() -> None:
    assert numbers(on_one_engine(read(LINES))) == [[(0, 1)], [(2, 3)]]


def test_neighbours_on_two_engines_are_of_one_start_and_share_no_block() -> None:
    assert numbers(on_two_engines(read(LINES))) == [[(1, 2), (3, 4)], [(5, 6)]]


@pytest.mark.parametrize(("lines", "said"), [
    ([], "first line"),
    ([b'{"format": "other", "conditions": {}}\n'], "first line"),
    ([*LINES[:3], b'{"engine": 0}\n'], "line 4"),
    ([LINES[0], LINES[2], LINES[1]], "line 3"),
])  # fmt: skip
def test_a_line_that_does_not_fit_is_named(lines: list[bytes], said: str) -> None:
    with pytest.raises(CannotAnswer, match=said):
        read(lines)
