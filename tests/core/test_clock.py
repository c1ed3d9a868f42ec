from __future__ import annotations

from pellucid.core.clock import Anchor


def test_rows_are_placed_by_the_anchor_before_and_after_it() -> None:
    anchor = Anchor(mono_ns=1_000, wall_ns=5_000_000)
    assert (anchor.wall(1_250), anchor.wall(400)) == (5_000_250, 4_999_400)


def test_a_moment_there_and_back_is_the_same_moment() -> None:
    anchor = Anchor(mono_ns=1_000, wall_ns=5_000_000)
    assert anchor.mono(anchor.wall(123)) == 123
