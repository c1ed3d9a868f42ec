"""Totals become increases: restarts, new series, first pages, old names beside new ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pellucid.collect.openmetrics.parse import Sample, parse
from pellucid.collect.openmetrics.private import public
from pellucid.collect.openmetrics.track import Tracker
from pellucid.collect.openmetrics.translate import status_class, translate

TOKENS = "vllm:generation_tokens_total"


def values(*pages: list[Sample]) -> list[dict[tuple[str, Any], float]]:
    """(metric, kind or part) → value, for each page of one process."""
    tracker, found = Tracker(), []
    for page in pages:
        told = translate(page, "a")
        taken = tracker.take(told.told, told.created)
        found.append({(k.metric, k.part or k.le or k.kind): v for k, v in taken.items()})
    return found


def tokens(value: float, **labels: str) -> Sample:
    return Sample(TOKENS, labels, value)


def test_a_first_page_has_gauges_only() -> None:
    (first,) = values([tokens(500), Sample("vllm:num_requests_running", {}, 3)])
    assert first == {("running_count", "gauge"): 3}


def test_a_counter_is_its_increase() -> None:
    assert values([tokens(500)], [tokens(620)])[1][("output_tokens", "counter")] == 120


def test_a_counter_that_fell_began_anew_and_is_said_so() -> None:
    second = values([tokens(500)], [tokens(40)])[1]
    assert second == {("output_tokens", "counter"): 40, ("counter_resets_count", "counter"): 1}


def test_a_series_made_anew_began_anew_though_it_is_higher() -> None:
    made = "vllm:generation_tokens_created"
    pages = [tokens(500), Sample(made, {}, 1e9)], [tokens(700), Sample(made, {}, 1e9 + 60)]
    assert values(*pages)[1] == {("output_tokens", "counter"): 700, ("counter_resets_count", "counter"): 1}


def test_a_counter_without_restart_says_that_none_was() -> None:
    assert values([tokens(500)], [tokens(500)])[1] == {
        ("output_tokens", "counter"): 0, ("counter_resets_count", "counter"): 0}  # fmt: skip


def test_the_first_429_makes_its_own_series_and_counts() -> None:
    def responses(**by_status: int) -> list[Sample]:
        return [Sample("sglang:http_responses_total", {"status_code": s[1:]}, n) for s, n in by_status.items()]

    second = values(responses(s200=10), responses(s200=30, s429=4, s500=1, s503=2))[1]
    assert (second["http_responses_count", "2xx"], second["http_responses_count", "429"]) == (20, 4)
    assert second["http_responses_count", "5xx"] == 3


def test_an_old_name_beside_the_new_one_does_not_count_twice() -> None:
    page = [Sample("vllm:gpu_cache_usage_perc", {}, 0.4), Sample("vllm:kv_cache_usage_perc", {}, 0.5)]
    assert values(page) == [{("kv_used_ratio", "gauge"): 0.5}]


def test_two_versions_tell_the_same_in_the_same_words() -> None:
    names = ("gpu_cache_usage_perc", "time_in_queue_requests"), ("kv_cache_usage_perc", "request_queue_time_seconds")
    pages = [parse(f"vllm:{kv} 0.4\nvllm:{queue}_sum 2\nvllm:{queue}_count 4\n") for kv, queue in names]
    told = [sorted((t.key.metric, t.key.kind, t.value) for t in translate(p.samples, "a").told) for p in pages]
    assert told[0] == told[1] == [("kv_used_ratio", "gauge", 0.4), ("queue_ns", "count", 4), ("queue_ns", "sum", 2e9)]


def test_buckets_have_their_bounds_in_our_unit() -> None:
    def page(low: int, high: int) -> list[Sample]:
        name = "vllm:time_to_first_token_seconds_bucket"
        return [Sample(name, {"le": "0.25"}, low), Sample(name, {"le": "+Inf"}, high)]

    assert values(page(1, 2), page(4, 7))[1] == {
        ("ttft_ns", 0.25e9): 3, ("ttft_ns", math.inf): 5, ("counter_resets_count", "counter"): 0}  # fmt: skip


def test_ranks_of_one_engine_add_up_and_ranks_that_repeat_do_not() -> None:
    ranks = [tokens(0, engine="0"), tokens(0, engine="1")], [tokens(5, engine="0"), tokens(7, engine="1")]
    tracker = Tracker()
    for page in ranks:
        told = translate(page, "a")
        taken = tracker.take(told.told, told.created)
    assert {k.dp_rank: v for k, v in taken.items() if k.metric == "output_tokens"} == {0: 5, 1: 7}
    repeated = [Sample("sglang:num_running_reqs", {"tp_rank": str(n)}, 3) for n in range(4)]
    assert values(repeated) == [{("running_count", "gauge"): 3}]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_missing(value: float) -> None:
    told = translate([Sample("vllm:num_requests_running", {}, value)], "a")
    assert (told.told, told.blank_count) == ([], 1)


@pytest.mark.parametrize(
    "sample",
    [Sample("vllm:time_to_first_token_seconds_bucket", {}, 3),
     Sample("vllm:time_to_first_token_seconds_bucket", {"le": "x"}, 3),
     Sample("http_request_size_bytes", {"quantile": "0.5"}, 9)],
)  # fmt: skip
def test_a_bucket_without_a_bound_and_a_quantile_are_kept_as_they_are(sample: Sample) -> None:
    told = translate([sample], "a")
    assert (told.told, told.unmapped) == ([], [("a", sample)])


def test_a_damaged_line_is_left_out_and_counted() -> None:
    cut = 'vllm:num_requests_waiting{engine="0'
    page = parse(f"vllm:num_requests_running 3\n{cut}\n\x00\nvllm:kv_cache_usage_perc 0.5\n")
    assert [s.value for s in page.samples] == [3, 0.5]
    assert page.damaged_count == 2


def test_a_status_is_its_class_and_429_is_itself() -> None:
    assert [status_class(s) for s in ("200", "2xx", "404", "429", "503", "", "x")] == [
        "2xx", "2xx", "4xx", "429", "5xx", None, None]  # fmt: skip


def test_raw_labels_lose_secrets_names_and_addresses() -> None:
    labels = {"user": "ada", "api_key": "x", "auth_token": "x", "token_position": "2", "url": "http://192.0.2.7:80",
              "client_host": "h", "who": "ada@example.org", "peer6": "2001:db8:0:1::7", "path": "/home/ada/m",
              "tier": "disk", "version": "0.32.0"}  # fmt: skip
    assert public(labels) == {"token_position": "2", "path": "/home/-/m", "tier": "disk", "version": "0.32.0"}
