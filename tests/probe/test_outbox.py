"""The outbox: order, threads, a record that cannot be packed, a thread that does not come."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pellucid_probe.outbox import FULL, PIECE, PIECES, Outbox, one
from pellucid_probe.ring import SEGMENT_BYTES, RingReader, RingWriter


@pytest.fixture
def box() -> Iterator[tuple[Outbox, RingReader]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = str(Path(folder) / "engine_core-1.ring")
        yield Outbox(RingWriter(path, 64 * SEGMENT_BYTES)), RingReader(path)


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


ONE = one(1, number)


def numbers(reader: RingReader, kind: int) -> list[int]:
    return [int.from_bytes(p, "little") for k, p in reader.poll() if k == kind]


def test_nothing_is_in_the_ring_until_it_is_flushed(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    outbox.put(ONE, 7)
    assert reader.poll() == []
    outbox.flush()
    assert reader.poll() == [(1, number(7))]


def test_a_flush_of_so_many_says_whether_more_waits(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    for value in range(5):
        outbox.put(ONE, value)
    assert outbox.flush(3) is True
    assert numbers(reader, 1) == [0, 1, 2]
    assert outbox.flush(3) is False
    assert numbers(reader, 1) == [3, 4]
    assert outbox.flush(3) is False


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, PIECE * PIECES, PIECE * PIECES + 1, FULL])
def test_the_thread_empties_it_in_pieces_and_in_order(
    box: tuple[Outbox, RingReader], monkeypatch: pytest.MonkeyPatch, count: int,
) -> None:
    outbox, reader = box
    written: list[list[int]] = []
    monkeypatch.setattr("time.sleep", lambda _: written.append(numbers(reader, 1)))     # what is there at each pause
    for value in range(count):
        outbox.put(ONE, value)
    outbox.empty()
    assert all(len(piece) == PIECE for piece in written)
    assert len(written) <= PIECES
    assert [n for piece in written for n in piece] + numbers(reader, 1) == list(range(count))


def test_a_thread_that_was_woken_writes_all_at_once(
    box: tuple[Outbox, RingReader], monkeypatch: pytest.MonkeyPatch,
) -> None:
    outbox, reader = box
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("paused"))
    for value in range(PIECE * PIECES):
        outbox.put(ONE, value)
    outbox.wake()
    outbox.empty(outbox.wait(1.0))
    assert numbers(reader, 1) == list(range(PIECE * PIECES))
    assert outbox.wait(0.0) is False


def test_the_last_flush_waits_for_what_another_thread_has_taken_out(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    taken, go_on = threading.Event(), threading.Event()

    def slow(value: int) -> list[tuple[int, bytes]]:
        taken.set()
        go_on.wait(10)
        return [(1, number(value))]

    outbox.put(slow, 1)
    outbox.put(ONE, 2)
    thread = threading.Thread(target=outbox.flush, args=(1,))
    thread.start()
    taken.wait(10)
    assert outbox.flush() is False     # somebody else is at it
    threading.Timer(0.05, go_on.set).start()
    outbox.last()
    assert numbers(reader, 1) == [1, 2]
    thread.join()


def test_a_hook_flushes_itself_when_nobody_else_does(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    for value in range(FULL + 1):
        outbox.put(ONE, value)
    assert numbers(reader, 1) == list(range(FULL + 1))


def test_a_record_that_cannot_be_packed_is_counted_and_the_next_one_written(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    outbox.put(ONE, "no number")
    outbox.put(ONE, 2)
    outbox.flush()
    assert numbers(reader, 1) == [2]
    assert outbox.errors_count == 1


def test_threads_that_put_and_flush_at_once_lose_and_tear_nothing(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    count = 5000

    def put(kind: int) -> None:
        for value in range(count):
            outbox.put(one(kind, number), value)

    def flush() -> None:
        for _ in range(count):
            outbox.flush()

    threads = [threading.Thread(target=put, args=(kind,)) for kind in (1, 2)] + [threading.Thread(target=flush)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outbox.flush()
    read = reader.poll()
    for kind in (1, 2):
        assert [int.from_bytes(p, "little") for k, p in read if k == kind] == list(range(count))
    assert (reader.lost_count, reader.torn_count) == (0, 0)


def test_cost_is_counted(box: tuple[Outbox, RingReader]) -> None:
    outbox, _ = box
    outbox.put(one(1, lambda n: bytes(sum(range(n)) % 2)), 50_000)
    outbox.flush()
    assert outbox.cost_ns > 100_000


def test_a_silenced_outbox_takes_nothing_more(box: tuple[Outbox, RingReader]) -> None:
    outbox, reader = box
    put = outbox.put
    put(ONE, 1)
    outbox.silence()
    put(ONE, 2)
    outbox.flush()
    assert reader.poll() == []
