"""Sessions and think times come of conversations and ends of answers."""

from __future__ import annotations

import pytest

from pellucid.workload.documents.turns import Turn, add_turns, said_limit, said_setting
from pellucid.workload.fields import Unfit
from pellucid.workload.rows import Request, Rows

KEY = b"a key for tests, of thirty-two b"


def rows(*turns: tuple[str, int | None, int | None], key: bytes = KEY) -> list[dict[str, object]]:
    """(conversation, from, to) a turn."""
    found = Rows()
    add_turns([Turn(Request(1, 1, start), end, name) for name, start, end in turns], key, found)
    listed: list[dict[str, object]] = found.workload("test", "test").requests.to_pylist()
    return listed


def test_a_think_time_is_from_the_latest_answer_to_the_request() -> None:
    found = rows(("a", 10, 30), ("b", 20, 25), ("a", 50, 70), ("a", 90, 95))
    assert [(r["arrival_ns"], r["think_ns"]) for r in found] == [(0, None), (10, None), (40, 20), (80, 20)]


def test_a_request_that_did_not_wait_has_no_think_time() -> None:
    assert [r["think_ns"] for r in rows(("a", 10, 30), ("a", 29, 40), ("a", 35, 36), ("a", 40, 41))] == [
        None, None, None, 0]  # fmt: skip


def test_after_an_answer_of_unknown_end_no_think_time_is_known() -> None:
    assert [r["think_ns"] for r in rows(("a", 10, None), ("a", 20, 30), ("a", 40, 41))] == [None, None, None]


def test_sessions_are_keyed_hashes() -> None:
    first, second, none = (r["session"] for r in rows(("ada@example.org", 1, 2), ("ada@example.org", 3, 4), ("", 5, 6)))
    assert first == second != "ada@example.org"
    assert none is None
    assert rows(("ada@example.org", 1, 2), key=b"another")[0]["session"] != first


def test_requests_are_in_order_and_those_without_a_time_last() -> None:
    assert [r["arrival_ns"] for r in rows(("", None, 3), ("", 9, 10), ("", 4, 5))] == [0, 5, None]


def test_no_limit_is_null() -> None:
    assert [said_limit(v) for v in (None, 0, -1, "0", 7, "7")] == [None, None, None, None, 7, 7]


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "hot", 10**400])
def test_a_setting_that_makes_no_sense_is_refused(value: float | str) -> None:
    with pytest.raises(Unfit, match="unreadable"):
        said_setting(value)
