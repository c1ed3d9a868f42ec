"""Rows, limits and consequences of the rules that judge metrics pages; `test_limits` runs them with the others."""

from __future__ import annotations

from typing import Any

from pellucid.diagnose.rule import Gain, Verdict
from tests.diagnose import test_limits

FOUND: dict[str, dict[str, Any]] = {
    "queue.waiting_with_kv_free": {
        "pages_count": 100, "waiting_pages_count": 50, "at_most_pages_count": 50, "running_max_count": 10,
        "waiting_p95_count": 5, "kv_used_p95_ratio": 0.3, "queue_ttft_ratio": 0.5,
    },
    "kv.cache_full": {
        "pages_count": 100, "full_pages_count": 50, "pressed_pages_count": 50, "running_mean_count": 10,
        "waiting_mean_count": 9, "preempted_count": 3, "kv_total_blocks_count": 950, "queue_ttft_ratio": 0.5,
    },
    "server.errors": {
        "responses_count": 1000, "no_room_count": 200, "server_errors_count": 50, "rejected_count": None,
        "failed_count": None, "finished_count": 700, "replicas_count": 1,
    },
    "latency.queue_dominates": {
        "queue_ns": 6e9, "queued_count": 10, "ttft_ns": 10e9, "first_tokens_count": 10, "replicas_count": 2,
    },
    "spec.low_acceptance": {"drafted_tokens": 500, "accepted_tokens": 100, "draft_rounds_count": 100},
    "data.counters_disagree": {
        "page_preempted_count": 50, "preempted_count": 100, "untold_count": 0, "recomputed_tokens": 0,
        "page_cached_tokens": 400, "cached_tokens": 400, "prompt_tokens": 1000, "page_kv_used_ratio": 0.5,
        "kv_used_ratio": 0.5, "kv_cached_ratio": 0.5, "kv_off_ratio": 0.0, "frontends_count": 1,
        "counter_resets_count": 0,
    },
    "fleet.replica_odd": {
        "replicas_count": 3, "odd_replica": "b", "model": "m", "ttft_times_ratio": 2.0, "itl_times_ratio": 1.0,
        "ttft_mean_ns": 2e8, "itl_mean_ns": 1e7, "requests_count": 10, "all_requests_count": 40,
        "failed_count": 0, "failed_ratio": 0.0, "others_failed_ratio": 0.0, "queue_mean_ns": 0,
        "others_queue_mean_ns": 0, "kv_used_ratio": 0.5, "others_kv_used_ratio": 0.5, "prefix_hit_ratio": 0.5,
        "others_prefix_hit_ratio": 0.5, "seen_count": 3, "models_count": 1, "nameless_count": 0,
    },
}  # fmt: skip

ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    ("queue.waiting_with_kv_free", {"waiting_pages_count": 20, "at_most_pages_count": 20}, "found"),
    ("queue.waiting_with_kv_free", {"waiting_pages_count": 19, "at_most_pages_count": 19}, "clear"),
    ("queue.waiting_with_kv_free", {"at_most_pages_count": 40}, "found"),
    ("queue.waiting_with_kv_free", {"at_most_pages_count": 39}, "blind"),
    ("queue.waiting_with_kv_free", {"kv_used_p95_ratio": 0.9}, "clear"),
    ("queue.waiting_with_kv_free", {"kv_used_p95_ratio": 0.8}, "found"),
    ("queue.waiting_with_kv_free", {"kv_used_p95_ratio": 0.0}, "found"),
    ("queue.waiting_with_kv_free", {"kv_used_p95_ratio": None}, "blind"),
    ("queue.waiting_with_kv_free", {"running_max_count": None}, "blind"),
    ("queue.waiting_with_kv_free", {"queue_ttft_ratio": 0.1}, "found"),
    ("queue.waiting_with_kv_free", {"queue_ttft_ratio": 0.09}, "clear"),
    ("kv.cache_full", {"full_pages_count": 20, "pressed_pages_count": 20}, "found"),
    ("kv.cache_full", {"full_pages_count": 19, "pressed_pages_count": 19}, "clear"),
    ("kv.cache_full", {"preempted_count": 0, "pressed_pages_count": 25}, "found"),
    ("kv.cache_full", {"preempted_count": 0, "pressed_pages_count": 24}, "clear"),
    ("kv.cache_full", {"preempted_count": None, "pressed_pages_count": 24}, "clear"),
    ("server.errors", {"no_room_count": 0, "server_errors_count": 10}, "found"),
    ("server.errors", {"no_room_count": 0, "server_errors_count": 9}, "clear"),
    ("server.errors", {"responses_count": None, "no_room_count": None, "server_errors_count": None}, "blind"),
    ("server.errors", {"responses_count": None, "no_room_count": None, "server_errors_count": None,
                       "failed_count": 70}, "found"),
    ("latency.queue_dominates", {"queue_ns": 5e9}, "found"),
    ("latency.queue_dominates", {"queue_ns": 4.9e9}, "clear"),
    ("latency.queue_dominates", {"queue_ns": 1e9, "ttft_ns": 1.5e9}, "found"),
    ("latency.queue_dominates", {"queue_ns": 0.99e9, "ttft_ns": 1.5e9}, "clear"),
    ("latency.queue_dominates", {"queued_count": None}, "blind"),
    ("latency.queue_dominates", {"first_tokens_count": None}, "blind"),
    ("latency.queue_dominates", {"first_tokens_count": 0}, "not_applicable"),
    ("spec.low_acceptance", {"accepted_tokens": 149}, "found"),
    ("spec.low_acceptance", {"accepted_tokens": 150}, "clear"),
    ("spec.low_acceptance", {"draft_rounds_count": 99}, "not_applicable"),
    ("spec.low_acceptance", {"draft_rounds_count": None}, "not_applicable"),
    ("data.counters_disagree", {"page_preempted_count": 95}, "found"),
    ("data.counters_disagree", {"page_preempted_count": 96}, "clear"),
    ("data.counters_disagree", {"page_preempted_count": 105}, "found"),
    ("data.counters_disagree", {"page_preempted_count": 104}, "clear"),
    ("data.counters_disagree", {"page_preempted_count": 5, "preempted_count": 10}, "found"),
    ("data.counters_disagree", {"page_preempted_count": 5.9, "preempted_count": 10}, "clear"),
    ("data.counters_disagree", {"page_preempted_count": 190, "preempted_count": 200}, "found"),
    ("data.counters_disagree", {"page_preempted_count": 191, "preempted_count": 200}, "clear"),
    ("data.counters_disagree", {"untold_count": 45}, "found"),
    ("data.counters_disagree", {"untold_count": 46}, "clear"),
    ("data.counters_disagree", {"page_preempted_count": 105, "untold_count": 50}, "found"),
    ("data.counters_disagree", {"preempted_count": None}, "clear"),
    ("data.counters_disagree", {"frontends_count": 2}, "clear"),
    ("data.counters_disagree", {"frontends_count": 2, "counter_resets_count": 1}, "not_applicable"),
    ("data.counters_disagree", {"counter_resets_count": 1}, "found"),
    ("data.counters_disagree", {"frontends_count": 2, "page_preempted_count": 150}, "found"),
    *(("data.counters_disagree", {"page_preempted_count": None, **change}, kind) for change, kind in (
        ({"page_cached_tokens": 350}, "found"), ({"page_cached_tokens": 351}, "clear"),
        ({"page_cached_tokens": 450}, "found"), ({"page_cached_tokens": 449}, "clear"),
        ({"page_cached_tokens": 350, "frontends_count": 2}, "clear"),
        ({"page_cached_tokens": 450, "frontends_count": 2}, "found"),
        ({"page_cached_tokens": 0, "cached_tokens": 0, "prompt_tokens": 0}, "clear"),
        ({"kv_off_ratio": 0.1}, "found"), ({"kv_off_ratio": 0.099}, "clear"),
        ({"kv_off_ratio": 0.1, "frontends_count": 2}, "clear"),
        ({"page_cached_tokens": None, "kv_off_ratio": 0.1}, "found"),
        ({"page_cached_tokens": None, "page_kv_used_ratio": None}, "not_applicable"))),
    ("fleet.replica_odd", {"ttft_times_ratio": 1.5}, "found"),
    ("fleet.replica_odd", {"ttft_times_ratio": 1.49}, "clear"),
    ("fleet.replica_odd", {"ttft_times_ratio": None, "itl_times_ratio": 1.5}, "found"),
    ("fleet.replica_odd", {"replicas_count": None}, "not_applicable"),
    *(("fleet.replica_odd", {"ttft_times_ratio": 1.0, **change}, kind) for change, kind in (
        ({"failed_count": 5, "failed_ratio": 0.05, "others_failed_ratio": 0.0}, "found"),
        ({"failed_count": 5, "failed_ratio": 0.045, "others_failed_ratio": 0.0}, "clear"),
        ({"failed_count": 4, "failed_ratio": 0.4}, "clear"),
        ({"failed_count": 9, "failed_ratio": 0.9, "others_failed_ratio": None}, "clear"),
        ({"queue_mean_ns": 300e6, "others_queue_mean_ns": 200e6}, "found"),
        ({"queue_mean_ns": 300e6, "others_queue_mean_ns": 201e6}, "clear"),
        ({"queue_mean_ns": 100e6, "others_queue_mean_ns": 0}, "found"),
        ({"queue_mean_ns": 99e6, "others_queue_mean_ns": 0}, "clear"),
        ({"queue_mean_ns": 900e6, "others_queue_mean_ns": None}, "clear"),
        ({"kv_used_ratio": 0.75, "others_kv_used_ratio": 0.45}, "found"),
        ({"kv_used_ratio": 0.75, "others_kv_used_ratio": 0.46}, "clear"),
        ({"kv_used_ratio": 0.1, "others_kv_used_ratio": 0.9}, "clear"),
        ({"kv_used_ratio": 0.9, "others_kv_used_ratio": None}, "clear"),
        ({"prefix_hit_ratio": 0.45, "others_prefix_hit_ratio": 0.75}, "found"),
        ({"prefix_hit_ratio": 0.46, "others_prefix_hit_ratio": 0.75}, "clear"),
        ({"prefix_hit_ratio": None}, "clear"))),
]  # fmt: skip


def judged(rule: str, **change: Any) -> Verdict:
    return test_limits.judged(rule, **change)


def gain(rule: str, **change: Any) -> Gain:
    claim = judged(rule, **change).gain
    assert claim is not None
    return claim


def test_a_page_raises_the_cap_to_those_who_wait_and_to_what_fits() -> None:
    rule = "queue.waiting_with_kv_free"
    assert judged(rule).targets == {"max_running_requests": 15}
    assert judged(rule, kv_used_p95_ratio=0.75).targets == {"max_running_requests": 12}


def test_a_page_claims_half_to_all_of_the_queue_that_goes() -> None:
    rule = "queue.waiting_with_kv_free"
    assert (gain(rule).low_ratio, gain(rule).high_ratio) == (0.25, 0.5)
    assert gain(rule, kv_used_p95_ratio=0.75).high_ratio == 0.2
    alone = gain(rule, queue_ttft_ratio=None)
    assert (alone.metric, alone.high_ratio) == ("queue_mean_ns", 1)


def test_a_full_cache_grows_to_hold_those_who_wait() -> None:
    """950 blocks for ten, nineteen want some, and a twentieth stays free: 1900."""
    assert judged("kv.cache_full").targets == {"max_running_requests": 10, "kv_cache_memory": 1900}
    assert judged("kv.cache_full", preempted_count=0).targets == {"kv_cache_memory": 1900}
    assert judged("kv.cache_full", kv_total_blocks_count=None).targets == {"max_running_requests": 10}
    assert judged("kv.cache_full", running_mean_count=None).targets == {}


def test_a_full_cache_claims_the_queue_at_most() -> None:
    assert (gain("kv.cache_full").metric, gain("kv.cache_full").high_ratio) == ("ttft_mean_ns", 0.5)
    assert gain("kv.cache_full", queue_ttft_ratio=None).metric == "queue_mean_ns"


def test_only_refusals_ask_for_more_engines() -> None:
    assert judged("server.errors").targets == {"engine_replicas": 2}
    assert judged("server.errors", no_room_count=50, server_errors_count=50).targets == {"engine_replicas": 2}
    broken = judged("server.errors", no_room_count=49, server_errors_count=50)
    assert (broken.targets, "its log says why" in broken.says) == ({}, True)


def test_failures_claim_the_tokens_they_did_not_give() -> None:
    assert gain("server.errors").high_ratio == 250 / 750


def test_an_odd_replica_claims_what_the_fleet_loses_by_it() -> None:
    """A quarter of the requests at twice the time is two fifths of all the time; half of that goes."""
    assert gain("fleet.replica_odd").high_ratio == 0.2
    assert gain("fleet.replica_odd", ttft_times_ratio=1.0, itl_times_ratio=2.0).metric == "itl_mean_ns"
    queue = gain("fleet.replica_odd", ttft_times_ratio=1.0, queue_mean_ns=400e6, others_queue_mean_ns=200e6)
    assert (queue.metric, queue.high_ratio) == ("queue_mean_ns", 0.2)
    failed = gain("fleet.replica_odd", failed_count=8, failed_ratio=0.8, others_failed_ratio=0.0)
    assert (failed.metric, failed.high_ratio) == ("output_tokens_per_s", 0.2)


def test_blocks_that_carry_a_prefix_and_are_free_are_told_where_they_are_many() -> None:
    rule, agree = "data.counters_disagree", {"page_preempted_count": 100, "kv_used_ratio": 0.125}
    assert "freed blocks" in judged(rule, **agree, kv_cached_ratio=0.225).says
    assert "freed blocks" not in judged(rule, **agree, kv_cached_ratio=0.22).says
    assert "freed blocks" not in judged(rule, **agree, kv_cached_ratio=None).says


def test_with_one_frontend_nothing_is_said_of_several() -> None:
    assert "frontends" not in judged("data.counters_disagree", page_preempted_count=100).says


def test_a_draft_is_as_long_as_what_is_kept() -> None:
    assert judged("spec.low_acceptance").targets == {"speculative_tokens": 1}
    assert judged("spec.low_acceptance", drafted_tokens=900, accepted_tokens=260).targets == {"speculative_tokens": 3}
