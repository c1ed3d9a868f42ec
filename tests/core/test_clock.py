from __future__ import annotations

from pellucid.core.clock import Anchor


def test_rows_are_placed_by_the_anchor_before_and_after_it() -> None:
    anchor = Anchor(mono_ns=1_000, wall_ns=5_000_000)
    assert (anchor.wall(1_250), anchor.wall(400)) == (5_000_250, 4_999_400)
