"""Order, gaps, replay and restarts, and what becomes of the blocks. No socket: messages are handed in."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.collect.kv_events.lives import Lives
from pellucid.collect.kv_events.stream import REORDER_NS, REPLAY_NS, Stream
from pellucid.core.clock import Anchor
from pellucid.store.schema import KV_RESIDENCY
from tests.collect.kv_events.publisher import CLEARED, END, T0_NS, batch, frames, removed, stored
from tests.collect.kv_events.test_wire import messages

END_OF_REPLAY = [b"", b"", END, b""]


class Bench:
    """A stream with what it wrote."""

    def __init__(self, may_replay: bool = False) -> None:
        self.rows: list[dict[str, Any]] = []
        names = KV_RESIDENCY.names()
        lives = Lives(lambda row: self.rows.append(dict(zip(names, row, strict=True))), b"k" * 32, Anchor(0, T0_NS), {})
        self.stream = Stream(lives, may_replay)

    def live(self, number: int, events: list[Any], at_s: float | None = None) -> None:
        self.stream.live(frames(number, batch(events, float(number) if at_s is None else at_s)))

    def again(self, number: int, events: list[Any], at_s: float | None = None) -> None:
        self.stream.replayed([b"", *frames(number, batch(events, float(number) if at_s is None else at_s))])

    def ends(self) -> list[tuple[Any, Any, Any]]:
        return [(row["cached_ns"], row["removed_ns"], row["removed_reason"]) for row in self.rows]


S = 10**9


def test_a_block_is_stored_and_removed() -> None:
    b = Bench()
    b.live(0, [stored(1, 2, group_idx=4)])
    b.live(3 - 2, [removed(1, group_idx=4)], at_s=3)
    b.stream.end()
    assert b.ends() == [(0, 3 * S, "evicted"), (0, None, None)]
    assert [(r["tier"], r["kv_group"], r["tokens"], r["dp_rank"]) for r in b.rows] == [("device", 4, 16, 0)] * 2
    assert all(r[c] is None for r in b.rows for c in ("request", "last_used_ns", "freed_ns", "hits_count"))


def test_a_hash_is_keyed_before_it_is_written() -> None:
    b = Bench()
    b.live(0, [stored(77), removed(77)])
    assert len(b.rows[0]["block_hash"]) == 16 and b.rows[0]["block_hash"] != f"{77:016x}"


def test_two_copies_of_a_block_are_two_lives() -> None:
    b = Bench()
    b.live(0, [stored(1)])
    b.live(1, [stored(1)])
    b.live(2, [removed(1)])
    b.stream.end()
    assert b.ends() == [(0, 2 * S, "evicted"), (1 * S, None, None)]
    assert b.stream.lives.counts.stored_again == 1


def test_tiers_are_apart_and_clearing_ends_the_device_only_with_certainty() -> None:
    b = Bench()
    b.live(0, [stored(1), stored(1, medium="CPU", size=0)])
    b.live(1, [CLEARED])
    b.live(2, [removed(1, medium="CPU")])
    assert b.ends() == [(0, 1 * S, "cleared"), (0, None, "unknown"), (None, 2 * S, "evicted")]
    assert [r["tier"] for r in b.rows] == ["device", "cpu", "cpu"]


def test_a_block_from_before_the_recording_has_no_start() -> None:
    b = Bench()
    b.live(40, [removed(9)])
    assert (b.ends(), b.stream.losses.before) == ([(None, 40 * S, "evicted")], 40)
    assert b.stream.lives.counts.never_seen_stored == 1


def test_late_messages_are_put_in_order() -> None:
    b = Bench()
    for number, events in ((0, [stored(1)]), (3, [removed(1)]), (2, [stored(1)]), (1, [removed(1)])):
        b.live(number, events)
        b.stream.wanted(0)
    assert b.ends() == [(0, 1 * S, "evicted"), (2 * S, 3 * S, "evicted")]
    assert b.stream.losses.lost == 0


def test_what_was_open_at_a_gap_is_closed_as_unknown() -> None:
    b = Bench()
    b.live(0, [stored(1)])
    b.live(2, [stored(2)])
    assert b.stream.wanted(0) is None and not b.rows
    b.stream.wanted(REORDER_NS - 1)
    assert not b.rows
    b.stream.wanted(REORDER_NS)
    b.live(3, [removed(1)])
    b.stream.end()
    assert b.ends() == [(0, None, "unknown"), (None, 3 * S, "evicted"), (2 * S, None, None)]
    assert (b.stream.losses.lost, b.stream.losses.gaps) == (1, 1)


def test_a_gap_is_filled_by_replay() -> None:
    b = Bench(may_replay=True)
    b.live(0, [stored(1)])
    b.live(3, [stored(3)])
    assert b.stream.wanted(0) == 0                     # one we have, then the two we lack
    assert b.stream.wanted(1) is None                  # asked once
    for number, events in ((0, [stored(1)]), (1, [removed(1)]), (2, []), (3, [stored(3)])):
        b.again(number, events)
    b.stream.replayed(END_OF_REPLAY)
    b.stream.end()
    assert b.ends() == [(0, 1 * S, "evicted"), (3 * S, None, None)]
    assert (b.stream.losses.lost, b.stream.losses.replayed) == (0, 2)


def test_what_a_replay_does_not_have_any_more_is_lost() -> None:
    b = Bench(may_replay=True)
    b.live(0, [stored(1)])
    b.live(5, [])
    assert b.stream.wanted(0) == 0
    b.again(3, [])
    b.again(4, [stored(4)])
    b.stream.replayed(END_OF_REPLAY)
    assert b.ends() == [(0, None, "unknown")]
    assert (b.stream.losses.lost, b.stream.losses.gaps, b.stream.order.next) == (2, 1, 6)


def test_a_replay_that_does_not_answer_is_given_up() -> None:
    b = Bench(may_replay=True)
    b.live(0, [stored(1)])
    b.live(2, [])
    b.stream.wanted(0)
    assert b.stream.wanted(REPLAY_NS - 1) is None and not b.rows
    assert b.stream.wanted(REPLAY_NS) is None and b.ends() == [(0, None, "unknown")]


def test_history_is_asked_for_at_the_start_and_lacking_it_is_no_loss() -> None:
    b = Bench(may_replay=True)
    b.live(7, [])
    assert b.stream.wanted(0) == 0
    b.again(5, [stored(5)])
    b.again(6, [])
    b.stream.replayed(END_OF_REPLAY)
    b.stream.end()
    assert b.ends() == [(5 * S, None, None)]
    assert (b.stream.losses.before, b.stream.losses.lost, b.stream.losses.replayed) == (5, 0, 2)


@pytest.mark.parametrize("payload", [b"", batch([stored(2)])[:-3], b"\xc1"])
def test_a_damaged_message_is_one_that_did_not_come(payload: bytes) -> None:
    b = Bench()
    b.live(0, [stored(1)])
    b.stream.live(frames(1, payload))
    b.live(2, [])
    b.stream.wanted(0)
    b.stream.wanted(REORDER_NS)
    assert (b.stream.losses.damaged, b.stream.losses.lost, b.ends()) == (1, 1, [(0, None, "unknown")])


def test_frames_of_something_else_are_counted_and_harm_nothing() -> None:
    b = Bench()
    for other in ([], [b"x"], [b"", b"\x00\x01", batch([])], [b"", bytes(8)]):
        b.stream.live(other)
    b.live(0, [stored(1)])
    assert (b.stream.losses.damaged, b.stream.lives.counts.batches) == (4, 1)


def test_a_repeated_message_counts_once() -> None:
    b = Bench()
    for number in (0, 1, 1, 0):
        b.live(number, [stored(number)])
    assert (b.stream.lives.counts.stored, b.stream.order.repeated_count) == (2, 2)


def test_an_engine_that_starts_again_counts_from_zero() -> None:
    b = Bench()
    b.live(0, [stored(1)])
    b.live(1, [])
    b.live(0, [stored(2)], at_s=60)
    b.stream.end()
    assert b.ends() == [(0, None, "unknown"), (60 * S, None, None)]
    assert (b.stream.losses.restarts, b.stream.losses.lost) == (1, 0)


def test_an_engine_that_started_again_while_nobody_looked_is_found_by_replay() -> None:
    """Its numbers have passed ours, so only the contents of one we have tell."""
    b = Bench(may_replay=True)
    b.live(0, [stored(1)])
    b.live(4, [], at_s=64)
    assert b.stream.wanted(0) == 0
    b.again(0, [stored(8)], at_s=60)
    assert (b.stream.losses.restarts, b.ends()) == (1, [(0, None, "unknown")])
    assert b.stream.wanted(1) is None                  # the rest of the answer comes first
    for number in (1, 2, 3, 4):
        b.again(number, [stored(number)] if number < 4 else [], at_s=60.0 + number)
    b.stream.replayed(END_OF_REPLAY)
    b.stream.end()
    assert (b.stream.losses.lost, len(b.rows)) == (0, 1 + 4)


def test_the_end_of_an_earlier_replay_is_not_that_of_a_later_one() -> None:
    b = Bench(may_replay=True)
    b.live(0, [stored(1)])
    b.live(2, [])
    assert b.stream.wanted(0) == 0
    b.again(1, [])                                     # the hole is filled before the answer has ended
    assert b.stream.wanted(1) is None
    b.live(4, [])
    assert b.stream.wanted(2) == 2
    b.stream.replayed(END_OF_REPLAY)
    assert b.stream.losses.lost == 0
    b.again(3, [removed(1)])
    b.stream.replayed(END_OF_REPLAY)
    assert (b.stream.losses.lost, b.ends()) == (0, [(0, 3 * S, "evicted")])


def test_a_real_engines_stream_adds_up() -> None:
    b = Bench()
    for message in list(messages()):
        b.stream.live(message)
        b.stream.wanted(0)
    counts = b.stream.lives.counts
    there = sum(map(len, b.stream.lives.open.values()))
    assert counts.stored == counts.removed - counts.never_seen_stored + there
    assert 0 < there <= 12_000                          # blocks of that server
    b.stream.end()
    assert len(b.rows) == counts.stored + counts.never_seen_stored
    assert (b.stream.losses.damaged, b.stream.losses.lost, counts.never_seen_stored) == (1, 0, 0)
