from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pellucid.sim.engine.blocks import Pool


def test_the_last_block_of_a_request_goes_first_and_nameless_ones_before_all() -> None:
    pool = Pool(5, caching=True)
    held = pool.take(3)
    pool.name(held[0], "a")
    pool.name(held[1], "b")
    pool.release(held)
    assert pool.free_count == 5
    assert pool.take(1) == [held[2]]               # it has no name: nobody can miss it
    assert pool.take(2) == [3, 4]                  # never used
    assert pool.find(["a", "b"]) == [held[0], held[1]]
    assert pool.take(1) == [held[1]]               # the end of a prefix is worth less than its beginning
    assert pool.find(["a", "b"]) == [held[0]]


def test_what_is_found_and_held_is_not_taken() -> None:
    pool = Pool(2, caching=True)
    held = pool.take(2)
    pool.name(held[0], "a")
    pool.name(held[1], "b")
    pool.release(held)
    found = pool.find(["a"])
    assert pool.idle_count(found) == 1
    pool.hold(found)
    assert pool.idle_count(found) == 0
    assert pool.free_count == 1
    assert pool.take(1) == [held[1]]
    pool.release(found)
    assert pool.find(["a"]) == found


def test_the_same_contents_in_two_blocks_outlive_one_of_them() -> None:
    pool = Pool(3, caching=True)
    one, other = pool.take(1), pool.take(1)
    pool.name(one[0], "a")
    pool.name(other[0], "a")
    pool.release(one)
    pool.take(2)
    assert pool.find(["a"]) == other


def test_without_caching_nothing_is_found() -> None:
    pool = Pool(2, caching=False)
    held = pool.take(1)
    pool.name(held[0], "a")
    pool.release(held)
    assert pool.find(["a"]) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 5)), max_size=60))
def test_every_block_is_held_or_free_and_found_once_for_each_name(steps: list[tuple[int, int, int]]) -> None:
    pool, holders = Pool(12, caching=True), list[list[int]]()
    for kind, count, key in steps:
        if kind == 0 and pool.free_count >= count:
            holders.append(pool.take(count))
            for place, block in enumerate(holders[-1][:-1]):
                pool.name(block, (key, place))
        elif kind == 1 and holders:
            pool.release(holders.pop(count % len(holders)))
        elif kind == 2:
            found = pool.find([(key, place) for place in range(count)])
            if found:
                pool.hold(found)
                holders.append(found)
        held = {block for blocks in holders for block in blocks}
        assert pool.free_count == 12 - len(held)
