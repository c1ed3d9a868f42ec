"""What the frontend notes of an HTTP request, from a request as an ASGI server hands it over."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pellucid_probe.vllm import frontend


def arrived(headers: dict[bytes, bytes], **more: Any) -> frontend.Arrival | None:
    frontend._arrival.set(None)
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": list(headers.items()), **more}
    frontend._arrived((object(), scope), {})
    return frontend._arrival.get()


def test_a_time_of_sending_is_placed_on_the_monotonic_clock() -> None:
    before_ns = time.monotonic_ns()
    seen = arrived({b"x-request-start": f"t={time.time_ns() - 250_000_000}".encode()})
    took_ns = time.monotonic_ns() - before_ns
    assert seen is not None and seen.sent_ns is not None
    assert 249_000_000 < seen.time_ns - seen.sent_ns < 251_000_000 + took_ns


def test_without_one_nothing_is_said() -> None:
    seen = arrived({b"traceparent": b"00-x", b"x-pellucid-task": b"plan"})
    assert seen is not None
    assert (seen.path, seen.traceparent, seen.task, seen.sent_ns) == ("/v1/completions", "00-x", "plan", None)


@pytest.mark.parametrize("more", [{"type": "lifespan"}, {"method": "GET"}])
def test_what_asks_for_no_tokens_is_no_arrival(more: dict[str, str]) -> None:
    assert arrived({}, **more) is None
