"""The network's span: known when the sender named its time, blind when it did not or when clocks disagree."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.diagnose.request.seen import Seen
from pellucid.diagnose.request.spans import Timed, total, ttft_spans


def row(sent_ns: int | None) -> dict[str, Any]:
    return {
        "sent_ns": sent_ns, "arrival_ns": 30, "queued_ns": 50, "scheduled_ns": 60, "first_token_ns": 90,
        "first_delivered_ns": 95, "finish_reason": "length",
    }  # fmt: skip


def spans(sent_ns: int | None) -> dict[str, Timed]:
    return {s.name: s for s in ttft_spans(Seen(row(sent_ns), [], [], [], [], []))}


def test_a_request_that_names_its_time_has_a_network_span_and_ttft_begins_with_it() -> None:
    found = spans(10)
    assert found["network"].duration_ns == 20
    assert sum(s.duration_ns or 0 for s in found.values()) == total(row(10), "first_delivered_ns") == 85


@pytest.mark.parametrize(("sent_ns", "says"), [(None, "named no time"), (31, "after it arrived")])
def test_without_a_usable_time_the_network_is_blind_and_ttft_begins_at_arrival(sent_ns: int | None, says: str) -> None:
    found = spans(sent_ns)
    assert found["network"].duration_ns is None
    assert says in found["network"].reason
    assert sum(s.duration_ns or 0 for s in found.values()) == total(row(sent_ns), "first_delivered_ns") == 65


@pytest.mark.parametrize(("arrival_ns", "says"), [(30, "pellucid doctor says"), (None, "the probe in its frontend")])
def test_a_delivery_that_was_shed_is_not_blamed_on_a_missing_probe(arrival_ns: int | None, says: str) -> None:
    unseen = row(None) | {"arrival_ns": arrival_ns, "first_delivered_ns": None}
    (sample,) = (s for s in ttft_spans(Seen(unseen, [], [], [], [], [])) if s.name == "first_sample")
    assert sample.duration_ns is None and says in sample.collect


def test_without_recorded_shares_prefill_is_not_divided() -> None:
    step = {"step": 1, "start_ns": 60, "end_ns": 90, "scheduled_tokens": 5}
    found = {s.name: s for s in ttft_spans(Seen(row(None), [], [step], [], [], []))}
    assert (found["prefill"].duration_ns, found["prefill"].parts) == (30, ())
