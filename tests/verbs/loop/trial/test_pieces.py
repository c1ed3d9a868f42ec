"""A workload in pieces: every request in one of them, at its time, and no tokens twice."""

from __future__ import annotations

from pathlib import Path

from pellucid.catalog.servers.dialects import PLAIN
from pellucid.verbs.loop.asks import Room, Wish
from pellucid.verbs.loop.trial.pieces import DRAWS, Pieces
from pellucid.workload.file import read
from pellucid.workload.prompts import Vocabulary
from tests.verbs.loop.trial.made import workload

ROOM = Room(Vocabulary(4096, 3), context_tokens=512)


def pieces(folder: Path, gap_s: float, count: int, block_s: float) -> Pieces:
    made = read(workload(folder / "w.parquet", gap_s, prompt=8, output=4, count=count))
    return Pieces.cut(made, Wish(), ROOM, PLAIN, block_s)


def prompts(made: Pieces, number: int, draw: int = 0) -> list[tuple[int, ...]]:
    return [tuple(ask.prompt()) for ask in made.piece(number, draw) if callable(ask.prompt)]


def test_requests_are_in_pieces_at_their_times_and_after_the_last_comes_the_first(tmp_path: Path) -> None:
    made = pieces(tmp_path, gap_s=0.25, count=8, block_s=1.0)
    assert [[ask.at_s for ask in made.piece(n)] for n in range(3)] == [[0.0, 0.25, 0.5, 0.75]] * 3


def test_windows_without_requests_are_no_pieces(tmp_path: Path) -> None:
    made = pieces(tmp_path, gap_s=2.5, count=3, block_s=1.0)
    assert [[ask.at_s for ask in made.piece(n)] for n in range(3)] == [[0.0], [0.5], [0.0]]


def test_no_tokens_come_twice_and_the_same_number_is_the_same_piece(tmp_path: Path) -> None:
    made = pieces(tmp_path, gap_s=0.25, count=8, block_s=1.0)
    seen = [p for number in range(6) for draw in range(DRAWS) for p in prompts(made, number, draw)]
    assert len(seen) == len(set(seen)) == 6 * DRAWS * 4
    assert prompts(made, 1, 2) == prompts(pieces(tmp_path, 0.25, 8, 1.0), 1, 2)
