"""Latencies of single requests, as quantiles of each arm."""

from __future__ import annotations

from pellucid.tune.effect.requests import SHARES, Timing, spreads


def test_each_metric_of_each_arm_has_its_quantiles_and_its_failures() -> None:
    present = [Timing(True, float(n), 2.0 * n) for n in range(101)]
    candidate = [Timing(True, 5.0, None), Timing(False, None, None)]
    found = spreads({"present": present, "candidate": candidate})
    assert [(s.metric, s.arm, s.requests_count, s.failed_count) for s in found] == [
        ("ttft_ns", "present", 101, 0), ("ttft_ns", "candidate", 1, 1),
        ("itl_mean_ns", "present", 101, 0), ("itl_mean_ns", "candidate", 0, 1)]  # fmt: skip
    assert found[0].quantiles_ns == tuple(float(n) for n in range(101)) and len(SHARES) == 101
    assert (found[2].quantiles_ns[50], found[1].quantiles_ns[0], found[3].quantiles_ns) == (100.0, 5.0, ())


def test_nothing_asked_is_nothing_told() -> None:
    assert spreads({"present": [], "candidate": []}) == ()


def test_a_failed_request_has_no_latency_even_where_it_had_begun() -> None:
    (ttft, _) = spreads({"present": [Timing(False, 7.0, 8.0)]})
    assert (ttft.requests_count, ttft.failed_count, ttft.quantiles_ns) == (0, 1, ())
