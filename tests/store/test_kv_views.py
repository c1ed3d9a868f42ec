"""Views of KV block lives and prefix lookups, on rows written out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.test_views import view

LOOKUPS = """
    process  request  family  time_ns  prompt_tokens  cached_tokens  evicted_tokens  salt_tokens  lora_tokens  tokenisation_tokens  skipped_tokens  never_seen_tokens  tail_tokens  miss_reason   evicted_age_ns  evicted_by
    p        1        A       10       100            0              0               0            0            0                    0               96                 4            never_seen    -               -
    p        2        A       20       100            64             32              0            0            0                    0               0                  4            evicted       7               3
    p        3        B       30       50             0              0               32           0            0                    0               16                 2            salt          -               -
    p        4        -       40       10             0              0               0            0            0                    0               0                  10           -             -               -
    p        5        B       50       50             0              48              0            0            0                    0               0                  2            evicted       9               3"""  # noqa: E501
REQUESTS = """
    process  request  task
    p        1        chat
    p        2        search
    p        3        chat
    p        5        -
    q        4        chat"""
LIVES = """
    process  tier    kv_group  block_hash  cached_ns  last_used_ns  removed_ns  removed_reason  hits_count  tokens
    p        device  0         x           0          0             5           evicted         0           16
    p        device  0         a           0          12            20          evicted         3           16
    p        device  0         b           1          1             30          evicted         0           16
    p        device  1         a           1          1             35          evicted         0           16
    p        cpu     0         a           1          1             36          evicted         0           16
    q        device  0         a           1          1             37          evicted         0           16
    p        device  0         c           2          2             50          evicted         0           16
    p        device  0         x           7          7             60          cleared         0           16
    p        device  0         a           60         60            -           -               0           16
    p        device  0         x           61         61            -           -               0           16"""


def test_a_family_has_what_it_found_and_what_an_endless_cache_would_have_given(tmp_path: Path) -> None:
    columns = "family, tasks, requests_count, hit_requests_count, prompt_tokens, cached_tokens, possible_tokens, achieved_ratio"  # noqa: E501
    assert view(tmp_path, "prefix_families", columns, prefix_lookups=LOOKUPS, requests=REQUESTS) == [
        ("A", "chat, search", 2, 1, 200, 64, 96, 64 / 96), ("B", "chat", 2, 0, 100, 0, 48, 0.0),
        (None, None, 1, 0, 10, 0, 0, None),
    ]  # fmt: skip


def test_both_hit_rates_keep_their_parts(tmp_path: Path) -> None:
    columns = "cached_tokens, prompt_tokens, token_hit_ratio, hit_requests_count, requests_count, request_hit_ratio, possible_tokens, evicted_age_p50_ns, last_ns"  # noqa: E501
    assert view(tmp_path, "prefix_rates", columns, prefix_lookups=LOOKUPS) == [
        (64, 310, 64 / 310, 1, 5, 0.2, 144, 8.0, 50)]  # fmt: skip


def test_a_task_is_that_of_the_same_process(tmp_path: Path) -> None:
    assert view(tmp_path, "prefix_tasks", "task, requests_count", prefix_lookups=LOOKUPS, requests=REQUESTS) == [
        ("chat", 2), ("search", 1), (None, 2)]  # fmt: skip


def test_reasons_add_up_to_the_prompts(tmp_path: Path) -> None:
    columns = "reason, tokens, prompt_tokens, requests_count, first_miss_count, last_ns"
    found = view(tmp_path, "prefix_reasons", columns, prefix_lookups=LOOKUPS)
    assert found == [
        ("cached", 64, 310, 1, None, 20), ("evicted", 80, 310, 2, 2, 50), ("lora", 0, 310, 0, 0, None),
        ("never_seen", 112, 310, 2, 1, 30), ("salt", 32, 310, 1, 1, 30), ("skipped", 0, 310, 0, 0, None),
        ("tail", 22, 310, 5, None, 50), ("tokenisation", 0, 310, 0, 0, None),
    ]  # fmt: skip
    assert sum(row[1] for row in found) == 310


def test_an_evictor_is_the_family_and_task_of_the_request_that_took_the_block(tmp_path: Path) -> None:
    columns = "family, task, lookups_count, own_lookups_count, evicted_tokens, evicted_age_p50_ns"
    assert view(tmp_path, "prefix_evictors", columns, prefix_lookups=LOOKUPS, requests=REQUESTS) == [
        ("B", "chat", 2, 1, 80, 8.0)]  # fmt: skip


def test_a_life_has_its_age_and_how_long_it_lay_unused(tmp_path: Path) -> None:
    found = view(tmp_path, "block_lives", "block_hash, cached_ns, age_ns, idle_ns, used_ns", kv_residency=LIVES)
    assert ("a", 0, 20, 8, 12) in found
    assert ("a", 60, None, None, 0) in found


def test_a_return_counts_the_evictions_of_its_tier_in_between(tmp_path: Path) -> None:
    """`a` of group 0 went at 20 and came back at 60; b, a of group 1 and c went after it: four with itself. `x` came
    back before anything else went, and what was cleared did not go for want of room."""
    columns = "block_hash, kv_group, tier, removed_ns, cached_ns, away_ns, distance_count"
    assert view(tmp_path, "block_returns", columns, kv_residency=LIVES) == [
        ("a", 0, "device", 20, 60, 40, 4), ("x", 0, "device", 5, 7, 2, 1)]  # fmt: skip


def test_a_block_that_is_cached_again_in_the_moment_it_goes_wants_one_more(tmp_path: Path) -> None:
    assert view(tmp_path, "block_returns", "block_hash, away_ns, distance_count", kv_residency="""
        process  tier    block_hash  cached_ns  removed_ns  removed_reason
        p        device  a           0          5           evicted
        p        device  a           5          -           -""") == [("a", 0, 1)]


def test_a_distance_counts_all_blocks_that_were_taken_where_the_steps_say_it(tmp_path: Path) -> None:
    """Evicted in the step at 20, wanted again in that at 40: 21 and 22 were taken, some of which held nothing."""
    assert view(tmp_path, "block_returns", "tier, distance_count", kv_residency="""
        process  tier    block_hash  cached_ns  removed_ns  removed_reason
        p        device  a           0          21          evicted
        p        device  a           40         -           -
        p        cpu     a           0          21          evicted
        p        cpu     a           40         -           -""", steps="""
        process  start_ns  kv_allocated_blocks_count
        p        10        20
        p        20        21
        q        25        70
        p        30        22
        p        40        23""") == [("cpu", 1), ("device", 43)]


def test_tiers_say_what_became_of_their_blocks(tmp_path: Path) -> None:
    columns = "tier, fate, blocks_count, found_blocks_count, hits_count, returned_count, distance_p90_count"
    assert view(tmp_path, "kv_tiers", columns, kv_residency=LIVES) == [
        ("cpu", "evicted", 1, 0, 0, 0, None), ("device", "cleared", 1, 0, 0, None, None),
        ("device", "evicted", 6, 1, 3, 2, 4.0), ("device", "there", 2, 0, 0, None, None),
    ]  # fmt: skip


def test_ages_are_quantiles_of_the_blocks_that_went(tmp_path: Path) -> None:
    (row,) = view(tmp_path, "kv_tiers", "age_p50_ns, age_p95_ns, idle_p50_ns, away_p50_ns", kv_residency="""
        process  tier    block_hash  cached_ns  last_used_ns  removed_ns  removed_reason
        p        device  a           0          4             10          evicted
        p        device  b           0          0             30          evicted""")
    assert row == (20.0, pytest.approx(29.0), 18.0, None)


def test_a_life_that_stands_for_several_counts_for_them(tmp_path: Path) -> None:
    lives = """
        process  tier    block_hash  cached_ns  last_used_ns  removed_ns  removed_reason  hits_count  stands_for_count
        core-1   device  a           0          5             10          evicted         1           4
        core-1   device  b           0          0             12          evicted         0           4
        core-1   device  a           20         20            -           -               0           4
    """
    columns = "fate, blocks_count, found_blocks_count, hits_count, returned_count, distance_p50_count"
    found = {row[0]: row[1:] for row in view(tmp_path, "kv_tiers", columns, kv_residency=lives)}
    assert found == {"evicted": (8, 4, 4, 4, 8.0), "there": (4, 0, 0, None, None)}


def test_ages_and_idle_times_at_eviction_are_in_powers_of_two(tmp_path: Path) -> None:
    """A millisecond exactly is in the bucket that ends there; a block found when it went was idle for no time."""
    assert view(tmp_path, "kv_ages", "tier, up_to_ns, evicted_count, idle_count", kv_residency="""
        process  tier    block_hash  cached_ns  last_used_ns  removed_ns  removed_reason  stands_for_count
        p        device  a           0          1000000       1000000     evicted         -
        p        device  b           0          0             1000001     evicted         4
        p        device  c           0          0             9000000     cleared         -
        p        device  d           0          0             -           -               -""") == [
        ("device", 0, 0, 1), ("device", 1_000_000, 1, 0), ("device", 2_000_000, 4, 4),
    ]  # fmt: skip


def test_a_page_lies_between_what_was_held_less_what_was_freed_and_what_is_held_next(tmp_path: Path) -> None:
    """Steps end at 10, 20 and 30; a request with 30 of 80 blocks is gone by the second, which holds 60 of 100."""
    columns = "page_ns, page_ratio, least_ratio, most_ratio, cached_ratio, off_ratio"
    assert view(tmp_path, "page_kv_use", columns, steps="""
        process  dp_rank  step  end_ns  kv_used_blocks_count  kv_total_blocks_count  kv_cached_blocks_count  kv_freed_blocks_count
        e        0        1     10      80                    100                    90                      0
        e        0        2     20      60                    100                    95                      30
        e        0        3     30      60                    100                    95                      0
        f        2        1     10      -                     100                    95                      0
        f        2        2     30      50                    100                    95                      0""", metrics="""
        metric         kind   dp_rank  end_ns  value
        kv_used_ratio  gauge  0        5       0.5
        kv_used_ratio  gauge  0        10      0.75
        kv_used_ratio  gauge  0        25      0.85
        kv_used_ratio  gauge  -        29      0.35
        kv_used_ratio  gauge  0        30      0.6
        kv_used_ratio  gauge  0        -       0.6
        kv_used_ratio  gauge  1        25      0.6
        kv_used_ratio  gauge  2        25      0.6
        running_count  gauge  0        25      3""") == [  # noqa: E501
        (10, 0.75, 0.5, 0.8, 0.9, 0), (25, 0.85, 0.6, 0.6, 0.95, 0.25), (29, 0.35, 0.6, 0.6, 0.95, 0.25),
    ]  # fmt: skip
