"""Words of clients: the task label, and the time at which a request was sent."""

from __future__ import annotations

import pytest
from pellucid_probe.vllm.labels import MAX_LENGTH, sent_ns, sent_wall_ns, task_of

SECOND = 1_796_000_000


@pytest.mark.parametrize(("header", "unit_ns"), [
    (b"t=1796000000.125", 125_000_000), (b"1796000000.125", 125_000_000), (b"t=1796000000125", 125_000_000),
    (b"1796000000125000", 125_000_000), (b" t=1796000000125000000 ", 125_000_000), (b"1796000000", 0),
])  # fmt: skip
def test_a_time_is_understood_in_every_unit_in_use(header: bytes, unit_ns: int) -> None:
    found = sent_wall_ns(header)
    assert found is not None
    assert abs(found - (SECOND * 1_000_000_000 + unit_ns)) < 1_000       # a float of seconds holds no more


@pytest.mark.parametrize("header", [b"", b"t=", b"yesterday", b"-5", b"12", b"nan", b"inf", b"\xff", b"1e40"])
def test_what_is_no_time_is_none(header: bytes) -> None:
    assert sent_wall_ns(header) is None


@pytest.mark.parametrize("stepped_s", [0, 3600, -3600])
def test_a_wall_clock_that_was_set_while_serving_does_not_change_how_long_a_request_was_on_its_way(
    stepped_s: int,
) -> None:
    """Both hosts follow the same time, ours is set an hour forward or back before the request comes."""
    sent_s, arrived_ns = SECOND + stepped_s, 77_000_000_000
    found = sent_ns(f"t={sent_s}".encode(), arrived_ns, wall=lambda: sent_s * 1_000_000_000 + 40_000_000)
    assert found == arrived_ns - 40_000_000
    assert sent_ns(b"soon", arrived_ns) is None


@pytest.mark.parametrize(("extra", "task"), [
    ({"task": "chat"}, "chat"), ({"task_type": "rag"}, "rag"), ({"task": 3, "task_type": "rag"}, "rag"),
    ({"task": ""}, None), ({}, None), (None, None), ({"task": "x" * 999}, "x" * MAX_LENGTH),
])  # fmt: skip
def test_a_label_is_a_short_text_or_none(extra: object, task: str | None) -> None:
    assert task_of(extra) == task
