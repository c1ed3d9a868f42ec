"""A/A pairs go into the file of noise and come back as they were, start by start."""

from __future__ import annotations

from pathlib import Path

from pellucid.tune.effect.pairs import Block, Order, Pair
from pellucid.verbs.loop.trial import noise

CONDITIONS = {"machine": "2 cores", "block": "10 s"}


def block(rate: float) -> Block:
    return Block(rate, 2e7, 1e8, 2e8, 3e7, 1e9, 12, 0, None, 10_000_000_000)


def timed(rate: float, order: Order, at_ns: int) -> noise.Timed:
    first, second = at_ns, at_ns + 10
    a, b = (first, second) if order == "ab" else (second, first)
    return noise.Timed(Pair(block(rate), block(rate + 1), order, start=7), a, b)


def test_pairs_come_back_with_starts_counted_anew(tmp_path: Path) -> None:
    path = noise.place(tmp_path, CONDITIONS)
    assert (noise.pairs(path), noise.starts_count(path)) == ([], 0)
    noise.add(path, CONDITIONS, [timed(100, "ab", 0), timed(200, "ba", 100)])
    noise.add(path, CONDITIONS, [timed(300, "ba", 200)])
    assert [(p.a.output_tokens_per_s, p.b.output_tokens_per_s, p.order, p.start) for p in noise.pairs(path)] == [
        (100, 101, "ab", 0), (200, 201, "ba", 0), (300, 301, "ba", 1),
    ]  # fmt: skip
    assert noise.starts_count(path) == 2


def test_other_conditions_are_another_file(tmp_path: Path) -> None:
    assert noise.place(tmp_path, CONDITIONS) != noise.place(tmp_path, {**CONDITIONS, "block": "5 s"})
    assert noise.place(tmp_path, CONDITIONS) == noise.place(tmp_path, dict(reversed(CONDITIONS.items())))
